"""What a server says of its prefix cache: its Prometheus counters."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Final

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheCounters:
    """Totals since the server's start, or differences of two readings.

    Tokens: `queried_tokens` were looked up, `hit_tokens` of them found. `lookups` are requests
    looked up, `lookup_hits` those with at least one block found. `prefill_tokens` were computed,
    `recomputed_tokens` again after a preemption. None: this server does not count it.
    """

    queried_tokens: float
    hit_tokens: float
    lookups: float | None = None
    lookup_hits: float | None = None
    prefill_tokens: float | None = None
    evicted_blocks: float | None = None
    recomputed_tokens: float | None = None
    preemptions: float | None = None

    def since(self, earlier: "CacheCounters") -> "CacheCounters":
        """What was counted after `earlier` was read."""
        return CacheCounters(
            queried_tokens=self.queried_tokens - earlier.queried_tokens,
            hit_tokens=self.hit_tokens - earlier.hit_tokens,
            **{
                field.name: _difference(getattr(self, field.name), getattr(earlier, field.name))
                for field in fields(self)[2:]
            },
        )


_DIALECTS: Final[tuple[Mapping[str, tuple[str, ...]], ...]] = (
    {
        "queried_tokens": ("netgain_prefix_cache_queried_tokens_total",),
        "hit_tokens": ("netgain_prefix_cache_hit_tokens_total",),
        "lookups": ("netgain_prefix_cache_queries_total",),
        "lookup_hits": ("netgain_prefix_cache_hits_total",),
        "prefill_tokens": ("netgain_prefill_tokens_total",),
        "evicted_blocks": ("netgain_kv_blocks_evicted_total",),
        "recomputed_tokens": ("netgain_recomputed_tokens_total",),
        "preemptions": ("netgain_preemptions_total",),
    },
    {
        # Both count tokens. The second names are those of versions before 0.10.
        "queried_tokens": (
            "vllm:prefix_cache_queries_total",
            "vllm:gpu_prefix_cache_queries_total",
        ),
        "hit_tokens": ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"),
        "preemptions": ("vllm:num_preemptions_total",),
    },
    {
        "queried_tokens": ("sglang:prompt_tokens_total",),
        "hit_tokens": ("sglang:cached_tokens_total",),
    },
)


def read_counters(prometheus_text: str) -> CacheCounters | None:
    """From the text of `/metrics` of netgain, vLLM or SGLang; None where it has none of them.

    A counter with several sets of labels is summed. Raises `ValueError` for text that is not
    Prometheus'.
    """
    totals = _totals(prometheus_text)
    for names in _DIALECTS:
        found = {
            key: next((totals[name] for name in choices if name in totals), None)
            for key, choices in names.items()
        }
        queried, hit = found.pop("queried_tokens"), found.pop("hit_tokens")
        if queried is not None and hit is not None:
            return CacheCounters(queried_tokens=queried, hit_tokens=hit, **found)
    return None


def read_capacity(prometheus_text: str) -> int | None:
    """Tokens the server's KV pools hold together, from the same text; None where it does not say.

    netgain: `netgain_kv_blocks` x `netgain_kv_block_tokens`. vLLM: the labels of
    `vllm:cache_config_info`, one an engine.
    """
    totals = _totals(prometheus_text)
    blocks, block_tokens = (
        totals.get(name) for name in ("netgain_kv_blocks", "netgain_kv_block_tokens")
    )
    if blocks and block_tokens:
        return int(blocks * block_tokens)
    engines = [
        (sample.labels.get("num_gpu_blocks", ""), sample.labels.get("block_size", ""))
        for sample in _samples(prometheus_text)
        if sample.name == "vllm:cache_config_info"
    ]
    if not engines or not all(part.isdecimal() for engine in engines for part in engine):
        return None
    return sum(int(count) * int(size) for count, size in engines)


def _totals(text: str) -> dict[str, float]:
    """Every sample's value by its name, summed over labels."""
    totals: dict[str, float] = {}
    for sample in _samples(text):
        totals[sample.name] = totals.get(sample.name, 0.0) + sample.value
    return totals


def _samples(text: str) -> Iterator[Sample]:
    for family in text_string_to_metric_families(text):
        yield from family.samples


def _difference(later: float | None, earlier: float | None) -> float | None:
    return None if later is None or earlier is None else later - earlier
