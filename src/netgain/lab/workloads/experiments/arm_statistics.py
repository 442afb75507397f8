"""Numbers of one arm's records: latencies, hits, ledger stages."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from netgain.lab.record import RequestRecord


def answered(
    records: Iterable[RequestRecord], request_class: str | None = None
) -> list[RequestRecord]:
    """Those with a whole answer, of one class or of all."""
    return [
        record
        for record in records
        if record.failure is None
        and record.first_token_s is not None
        and (request_class is None or record.request_class == request_class)
    ]


def ttft_s(record: RequestRecord) -> float:
    """First token less intended start, of an answered request."""
    assert record.first_token_s is not None
    return record.first_token_s - record.intended_s


def percentile(values: Sequence[float], q: float) -> float | None:
    """Linear between ranks, as numpy; None of nothing."""
    return float(np.percentile(values, q)) if len(values) else None


@dataclass(frozen=True, slots=True)
class Hits:
    """What the server found cached, by its own `usage`.

    `full_prefill_tokens` belong to requests without any hit, `suffix_prefill_tokens` are what
    requests with one still had to compute. `lengths`: cached tokens of each request with a hit.
    """

    requests: int
    request_hits: int
    prompt_tokens: int
    token_hits: int
    full_prefill_tokens: int
    suffix_prefill_tokens: int
    lengths: tuple[int, ...]

    @property
    def request_rate(self) -> float | None:
        """Requests with a hit, of all."""
        return self.request_hits / self.requests if self.requests else None

    @property
    def token_rate(self) -> float | None:
        """Prompt tokens found, of all."""
        return self.token_hits / self.prompt_tokens if self.prompt_tokens else None


def hits_of(records: Iterable[RequestRecord]) -> Hits | None:
    """Of answered requests; None where the server does not say what it found."""
    usages = [record.usage for record in answered(records) if record.usage is not None]
    counts = [
        (usage.prompt_tokens, usage.cached_tokens)
        for usage in usages
        if usage.cached_tokens is not None
    ]
    if not counts:
        return None
    return Hits(
        requests=len(counts),
        request_hits=sum(cached > 0 for _, cached in counts),
        prompt_tokens=sum(prompt for prompt, _ in counts),
        token_hits=sum(cached for _, cached in counts),
        full_prefill_tokens=sum(prompt for prompt, cached in counts if not cached),
        suffix_prefill_tokens=sum(prompt - cached for prompt, cached in counts if cached),
        lengths=tuple(cached for _, cached in counts if cached),
    )


class _Stage(msgspec.Struct):
    stage: str
    start_s: float
    end_s: float


class _Ledger(msgspec.Struct):
    stages: list[_Stage] = []
    interference_s: float = 0.0


def stage_seconds(records: Iterable[RequestRecord]) -> dict[str, float]:
    """Mean seconds a request spent in each ledger stage; empty where no ledger came."""
    totals: dict[str, float] = {}
    ledgers = [ledger for record in answered(records) if (ledger := _ledger(record)) is not None]
    for ledger in ledgers:
        for stage in ledger.stages:
            totals[stage.stage] = totals.get(stage.stage, 0.0) + stage.end_s - stage.start_s
    return {name: total / len(ledgers) for name, total in totals.items()}


def interference_s(records: Iterable[RequestRecord]) -> float | None:
    """Mean decode time lost to prefills in the same steps, by the server's ledger."""
    ledgers = [ledger for record in answered(records) if (ledger := _ledger(record)) is not None]
    if not ledgers:
        return None
    return sum(ledger.interference_s for ledger in ledgers) / len(ledgers)


def _ledger(record: RequestRecord) -> _Ledger | None:
    try:
        return msgspec.json.decode(record.ledger, type=_Ledger | None)
    except msgspec.ValidationError:  # some other server's
        return None


@dataclass(frozen=True, slots=True)
class Ratio:
    """Of two percentiles, with a 95 % bootstrap interval."""

    value: float
    low: float
    high: float


def median_ratio(
    numerator: Sequence[float], denominator: Sequence[float], draws: int = 2000
) -> Ratio | None:
    """None where either is empty or the denominator's median is 0. The draws are seeded."""
    if not len(numerator) or not len(denominator):
        return None
    below = float(np.median(denominator))
    if below <= 0:
        return None
    rng = np.random.default_rng(0)
    top = np.asarray(numerator, dtype=np.float64)
    bottom = np.asarray(denominator, dtype=np.float64)
    tops = np.median(top[rng.integers(0, len(top), (draws, len(top)))], axis=1)
    bottoms = np.median(bottom[rng.integers(0, len(bottom), (draws, len(bottom)))], axis=1)
    low, high = np.percentile(tops / np.maximum(bottoms, 1e-12), [2.5, 97.5])
    return Ratio(float(np.median(top)) / below, float(low), float(high))


def percentile_ratio(
    numerator: Sequence[Sequence[float]],
    denominator: Sequence[Sequence[float]],
    q: float,
    draws: int = 400,
) -> Ratio | None:
    """Of the pooled values' percentiles. Each inner sequence is one request's: requests are drawn,
    since values of one request are not independent. None where either has no values, or the
    denominator's percentile is 0.
    """
    tops = [np.asarray(values, dtype=np.float64) for values in numerator if len(values)]
    bottoms = [np.asarray(values, dtype=np.float64) for values in denominator if len(values)]
    if not tops or not bottoms:
        return None
    below = float(np.percentile(np.concatenate(bottoms), q))
    if below <= 0:
        return None
    rng = np.random.default_rng(0)
    drawn = [
        _drawn_percentile(tops, q, rng) / max(_drawn_percentile(bottoms, q, rng), 1e-12)
        for _ in range(draws)
    ]
    low, high = np.percentile(drawn, [2.5, 97.5])
    return Ratio(float(np.percentile(np.concatenate(tops), q)) / below, float(low), float(high))


def _drawn_percentile(
    requests: Sequence[npt.NDArray[np.float64]], q: float, rng: np.random.Generator
) -> float:
    chosen = rng.integers(0, len(requests), len(requests))
    return float(np.percentile(np.concatenate([requests[i] for i in chosen]), q))
