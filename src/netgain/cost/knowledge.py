"""RAG, CAG and a hybrid: what a question costs, under a managed API's prices or on own devices.

The two price models are different types and never meet in one sum: an API's cached token has a
price and no residency, an own device's has residency and no price.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

from netgain.cost.bounds import at_least_zero, count, fraction, positive


class Way(StrEnum):
    """How a question meets its knowledge."""

    RAG = "rag"
    CAG = "cag"
    HYBRID = "hybrid"


@dataclass(frozen=True, slots=True)
class PromptTokens:
    """One question's prompt: tokens whose KV is cached, tokens to prefill."""

    cached: int
    fresh: int

    @property
    def context(self) -> int:
        """Everything a decode step reads."""
        return self.cached + self.fresh


@dataclass(frozen=True, slots=True)
class KnowledgeShape:
    """Sizes in tokens of what goes into a prompt.

    `system` is in every prompt and cached; `question` is new each time; RAG adds `chunks` of
    `chunk` tokens, CAG has `corpus` cached; the hybrid caches the stable `stable_share` of the
    corpus and retrieves `hybrid_chunks`.
    """

    system: int
    question: int
    chunk: int
    chunks: int
    corpus: int
    stable_share: float = 0.8
    hybrid_chunks: int = 2

    def __post_init__(self) -> None:
        """Raises `ConfigurationError` for a negative size or a share outside 0..1."""
        for name in ("system", "chunk", "chunks", "corpus", "hybrid_chunks"):
            count(f"{name} tokens", getattr(self, name), least=0)
        count("question tokens", self.question)
        fraction("stable_share", self.stable_share)

    def prompt(self, way: Way) -> PromptTokens:
        """Cached and fresh tokens of one question.

        The system prompt is cached in each way, beside CAG's corpus: 500 + 100,000 cached tokens.
        """
        if way is Way.RAG:
            return PromptTokens(self.system, self.chunks * self.chunk + self.question)
        if way is Way.CAG:
            return PromptTokens(self.system + self.corpus, self.question)
        stable = round(self.corpus * self.stable_share)
        return PromptTokens(self.system + stable, self.hybrid_chunks * self.chunk + self.question)


def prefill_ratio(more: PromptTokens, fewer: PromptTokens) -> float:
    """How many times the tokens to prefill differ; not the ratio of TTFTs."""
    return more.fresh / positive("fresh tokens", fewer.fresh)


@dataclass(frozen=True, slots=True)
class ManagedPrices:
    """A managed API's prices, dollars per million tokens, and what a query pays besides.

    `retrieval_dollars` (R) per query that retrieves, `storage_dollars_per_query` (S) of a cache
    that is rented by the hour, already divided by the queries of an hour.
    """

    input_dollars_per_million: float
    cached_dollars_per_million: float
    retrieval_dollars: float = 0.0
    storage_dollars_per_query: float = 0.0

    def __post_init__(self) -> None:
        """Raises `ConfigurationError` for a negative price."""
        at_least_zero("input price", self.input_dollars_per_million)
        at_least_zero("cached price", self.cached_dollars_per_million)
        at_least_zero("retrieval_dollars", self.retrieval_dollars)
        at_least_zero("storage_dollars_per_query", self.storage_dollars_per_query)


def managed_dollars(prices: ManagedPrices, prompt: PromptTokens, way: Way) -> float:
    """(cached Cc + fresh Cp) / 1e6 + R where it retrieves + S where it keeps a cache."""
    tokens = (
        prompt.cached * prices.cached_dollars_per_million
        + prompt.fresh * prices.input_dollars_per_million
    ) / 1e6
    retrieval = 0.0 if way is Way.CAG else prices.retrieval_dollars
    storage = 0.0 if way is Way.RAG else prices.storage_dollars_per_query
    return tokens + retrieval + storage


def token_equivalents(prompt: PromptTokens, cached_price_ratio: float) -> float:
    """Fresh-priced tokens that the prompt costs: cached x Cc / Cp + fresh."""
    return prompt.cached * fraction("cached_price_ratio", cached_price_ratio) + prompt.fresh


def managed_break_even_price_ratio(rag: PromptTokens, cag: PromptTokens) -> float:
    """Cc / Cp below which CAG is cheaper than RAG, R and S left out."""
    more_cached = cag.cached - rag.cached
    saved = rag.fresh - cag.fresh
    if saved <= 0:
        return 0.0
    return saved / more_cached if more_cached > 0 else 1.0


@dataclass(frozen=True, slots=True)
class SelfHostedCosts:
    """What one question takes of own devices, in device-seconds, one way.

    `retrieval_s` embed, search, rerank (in device-seconds of equal price), `build_s` the prefill
    of the cached corpus, paid once per `queries_per_build`, `storage_s_per_query` residency of
    its KV as the device time that other requests lose, `transfer_s` loading it, `prefill_s` of
    the fresh tokens over the cached ones, `decode_extra_s` what the longer context adds to the
    answer's steps.
    """

    retrieval_s: float = 0.0
    build_s: float = 0.0
    queries_per_build: float = math.inf
    storage_s_per_query: float = 0.0
    transfer_s: float = 0.0
    prefill_s: float = 0.0
    decode_extra_s: float = 0.0

    @property
    def online_s(self) -> float:
        """What each question pays, whatever the reuse."""
        return (
            self.retrieval_s
            + self.storage_s_per_query
            + self.transfer_s
            + self.prefill_s
            + self.decode_extra_s
        )

    @property
    def per_query_s(self) -> float:
        """Online plus the share of the build."""
        return self.online_s + self.build_s / positive_queries(self.queries_per_build)

    def dollars(self, dollars_per_device_hour: float, devices: int = 1) -> float:
        """Money per question."""
        at_least_zero("dollars_per_device_hour", dollars_per_device_hour)
        return self.per_query_s * devices * dollars_per_device_hour / 3600.0


def positive_queries(queries: float) -> float:
    """`queries` if above zero, infinity allowed. Raises `ConfigurationError`."""
    return queries if queries == math.inf else positive("queries_per_build", queries)


def break_even_queries(build_s: float, rag_online_s: float, cag_online_s: float) -> float | None:
    """Questions per build from which CAG is cheaper: build / (RAG - CAG online); None: never."""
    saved = rag_online_s - cag_online_s
    return at_least_zero("build_s", build_s) / saved if saved > 0 else None


def break_even_updates_per_s(queries_per_s: float, queries_per_build: float) -> float:
    """Changes of the knowledge per second above which the cache is rebuilt too often to pay."""
    return positive("queries_per_s", queries_per_s) / positive(
        "queries_per_build", queries_per_build
    )


def queries_per_build(queries_per_s: float, updates_per_s: float) -> float:
    """Questions that one build serves; infinite for knowledge that never changes."""
    at_least_zero("updates_per_s", updates_per_s)
    positive("queries_per_s", queries_per_s)
    return queries_per_s / updates_per_s if updates_per_s else math.inf
