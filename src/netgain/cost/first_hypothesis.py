"""From a bottleneck to the first thing worth trying, and the new cost it brings. SPEC 7.

A table gives a hypothesis; only a trial gives a verdict.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from netgain.cost.bounds import at_least_zero, count, fraction


class Technique(StrEnum):
    """What can be turned on."""

    SPECULATION = "speculative decoding"
    TENSOR_PARALLEL = "tensor parallel"
    PIPELINE_PARALLEL = "pipeline parallel"
    EXPERT_PARALLEL = "expert parallel"
    DATA_PARALLEL = "data parallel"
    CHUNKED_PREFILL = "chunked prefill"
    SEPARATION = "prefill/decode separation"
    PREFIX_CACHE = "prefix cache"
    KV_TIERS = "KV tiers"
    CAG = "cache-augmented generation or a hybrid"
    QUEUE = "admission, batching and scheduling"


class Goal(StrEnum):
    """What somebody wants better."""

    SHORTER_TTFT = "shorter TTFT"
    SHORTER_E2E = "shorter E2E"
    MORE_THROUGHPUT = "more throughput"
    BIGGER_MODEL = "bigger model"
    CHEAPER_DEVICE = "cheaper device"


CHECK_ALSO: Final = {
    Goal.SHORTER_TTFT: ("queue", "input processing", "memory"),
    Goal.SHORTER_E2E: ("decode time", "output length"),
    Goal.MORE_THROUGHPUT: ("concurrency", "queue", "utilisation"),
    Goal.BIGGER_MODEL: ("weights", "cost", "latency"),
    Goal.CHEAPER_DEVICE: ("memory", "bandwidth", "interconnect"),
}
"""Goal -> what to check besides the change itself."""

TRADE_OFF: Final = ("quality", "latency", "throughput", "cost")
"""One trade-off: no trial may leave out the fourth."""


@dataclass(frozen=True, slots=True)
class Lever:
    """A base lever, before any technique: what it saves and what it costs."""

    name: str
    saves: str
    costs: str


BASE_LEVERS: Final = (
    Lever("batching and scheduling", "weight reads per token", "waiting for step-mates"),
    Lever("chunk size", "interference with decodes", "more steps, KV read again"),
    Lever("prefix cache", "prefill of what was seen", "memory for kept blocks"),
    Lever("attention and kernels", "time per operation", "numerics to verify, builds to keep"),
    Lever(
        "quantisation",
        "bytes read; halving memory does not halve time",
        "quality, measured anew",
    ),
    Lever("a smaller model", "everything", "quality, measured anew"),
)

NEW_COST: Final = {
    Technique.SPECULATION: (
        "acceptance",
        "draft cost",
        "ITL",
        "throughput at load",
        "rejected tokens",
        "memory",
    ),
    Technique.TENSOR_PARALLEL: ("divisibility", "topology", "communication share"),
    Technique.PIPELINE_PARALLEL: ("divisibility", "topology", "communication share", "bubbles"),
    Technique.EXPERT_PARALLEL: ("slowest rank", "dispatch and combine", "KV capacity left"),
    Technique.DATA_PARALLEL: ("copies of the weights", "routing", "cache imbalance"),
    Technique.CHUNKED_PREFILL: ("extra steps", "KV read again", "TTFT"),
    Technique.SEPARATION: ("KV transfer", "two pools", "P:D ratio"),
    Technique.PREFIX_CACHE: ("hit rate", "look-up", "eviction", "isolation"),
    Technique.KV_TIERS: ("hit rate", "transfer", "cold and warm latency", "eviction", "isolation"),
    Technique.CAG: ("build", "storage", "invalidation", "longer context"),
    Technique.QUEUE: ("waiting for step-mates", "tail latency"),
}
"""Technique -> the cost it creates: what a trial of it has to check."""


@dataclass(frozen=True, slots=True)
class Situation:
    """What was observed. Shares are of E2E and need not add up to 1.

    `devices_per_model`: how many one copy needs. `fast_links`: whether the devices of a node are
    joined by more than PCIe. `decode_batch`: sequences in a decode step. `step_bound_by_memory`:
    whether a decode step is bound by reading weights. `interference_share`: share of decode time
    lost to co-scheduled prefill. `repeated_tokens`: tokens of a prefix that comes again and again;
    `evicted_before_reuse`: whether it is gone by then. `static_knowledge`: the same bounded texts
    in every prompt. `throughput_short`: it fits and is too little.
    """

    queue_share: float = 0.0
    prefill_share: float = 0.0
    decode_share: float = 1.0
    decode_batch: int = 1
    devices_per_model: int = 1
    fast_links: bool = False
    experts: bool = False
    step_bound_by_memory: bool = True
    interference_share: float = 0.0
    chunked: bool = True
    repeated_tokens: int = 0
    evicted_before_reuse: bool = False
    static_knowledge: bool = False
    throughput_short: bool = False

    def __post_init__(self) -> None:
        """Raises `ConfigurationError` for shares outside 0..1 and sizes below 1."""
        for name in ("queue_share", "prefill_share", "decode_share", "interference_share"):
            fraction(name, getattr(self, name))
        count("decode_batch", self.decode_batch)
        count("devices_per_model", self.devices_per_model)
        at_least_zero("repeated_tokens", self.repeated_tokens)


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One candidate, how much speaks for it (for ranking only), why, what to check."""

    technique: Technique
    weight: float
    because: str
    check: tuple[str, ...]


_Say: TypeAlias = Callable[[Technique, float, str], None]
_SMALL_BATCH: Final = 8
_LONG_PREFIX_TOKENS: Final = 1024


def hypotheses(seen: Situation) -> tuple[Hypothesis, ...]:
    """Candidates, the likeliest first; those that nothing speaks for come last with weight 0."""
    weights: dict[Technique, tuple[float, str]] = {}

    def say(technique: Technique, weight: float, because: str) -> None:
        if technique not in weights or weight > weights[technique][0]:
            weights[technique] = (weight, because)

    _division(seen, say)
    _decoding(seen, say)
    _prefilling(seen, say)
    if seen.queue_share > 0.3:
        say(
            Technique.QUEUE,
            seen.queue_share,
            f"{seen.queue_share:.0%} of E2E is queue: no technique inside a step shortens it",
        )
    if seen.throughput_short and seen.devices_per_model == 1:
        say(Technique.DATA_PARALLEL, 0.7, "the model fits and throughput is short")
    found = [
        Hypothesis(technique, weight, because, NEW_COST[technique])
        for technique, (weight, because) in weights.items()
    ]
    # A stable sort: what was said first stays first among equals.
    return tuple(sorted(found, key=lambda hypothesis: -hypothesis.weight))


def _division(seen: Situation, say: _Say) -> None:
    if seen.devices_per_model == 1:
        return
    # Above 1, before anything else: what does not fit does not run.
    need = f"the model needs {seen.devices_per_model} devices"
    if seen.fast_links:
        say(Technique.TENSOR_PARALLEL, 2.0, f"{need}, joined by fast links")
        say(Technique.PIPELINE_PARALLEL, 1.9, f"{need}; stages exchange less than tensor ranks")
    else:
        say(Technique.PIPELINE_PARALLEL, 2.0, f"{need} and links are slow: stages exchange least")
        say(Technique.TENSOR_PARALLEL, 1.4, f"{need}; two all-reduces a layer over slow links")
    if seen.experts:
        say(Technique.EXPERT_PARALLEL, 1.8, f"{need} and its experts can be spread")


def _decoding(seen: Situation, say: _Say) -> None:
    elsewhere = max(seen.queue_share, seen.prefill_share)
    if elsewhere >= seen.decode_share:
        say(
            Technique.SPECULATION,
            0.05,
            f"decode is {seen.decode_share:.0%} of E2E: queue or prefill dominates",
        )
    elif not seen.step_bound_by_memory:
        say(Technique.SPECULATION, 0.1, "steps are compute-bound: drafts compete with real tokens")
    elif seen.decode_batch <= _SMALL_BATCH:
        say(
            Technique.SPECULATION,
            seen.decode_share,
            f"decode at batch {seen.decode_batch} reads all weights for few tokens",
        )
    else:
        say(
            Technique.SPECULATION,
            0.3 * seen.decode_share,
            f"at batch {seen.decode_batch} verification competes with real tokens",
        )


def _prefilling(seen: Situation, say: _Say) -> None:
    if seen.interference_share > 0.05:
        lost = f"{seen.interference_share:.0%} of decode time is lost to prefill"
        first, second = Technique.CHUNKED_PREFILL, Technique.SEPARATION
        say(second if seen.chunked else first, 0.6 + 0.4 * seen.interference_share, lost)
        say(first if seen.chunked else second, 0.4 + 0.4 * seen.interference_share, lost)
    if seen.repeated_tokens:
        long = min(1.0, 0.5 + 0.5 * seen.repeated_tokens / _LONG_PREFIX_TOKENS)
        again = f"the same {seen.repeated_tokens:,} tokens come again"
        if seen.evicted_before_reuse:
            say(Technique.KV_TIERS, 1.1 * long, f"{again} and were evicted before: keep them below")
            say(Technique.PREFIX_CACHE, 0.4 * long, f"{again}; the device's cache lost them")
        else:
            say(Technique.PREFIX_CACHE, 1.1 * long, f"{again}: keep their blocks")
            say(Technique.KV_TIERS, 0.5 * long, f"{again}: room below once the device is full")
    if seen.static_knowledge:
        say(Technique.CAG, 0.75, "static knowledge is in every prompt")
