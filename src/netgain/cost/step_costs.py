"""How long a step of some load takes, whoever says so."""

from dataclasses import dataclass
from typing import Protocol

from netgain.cost.bounds import at_least_zero, positive
from netgain.cost.step_time import StepLoad


class StepCosts(Protocol):
    """Seconds of a step. `StepTimeModel` (calibrated) and `RooflineStep` (assumed) are two."""

    def step_s(self, load: StepLoad) -> float:
        """Seconds a step of this load takes."""
        ...


@dataclass(frozen=True, slots=True)
class RooflineStep:
    """A step as a sum of two operations, each bound by compute or by bandwidth, and an overhead.

    The matrices: `weight_bytes` read once against `flop_per_token` per token. Attention:
    `kv_bytes_per_token` of context read per slice against `flop_per_pair`. With `experts` > 0 a
    step reads `shared_bytes` plus the expected distinct share of the rest, E (1 - (1 - k/E)^B) / E.
    `flop_per_s` and `bytes_per_s` are what the device achieves, not its peaks.
    Source: SPEC's step time, a sum over operations of max(FLOPs / rate, bytes / bandwidth).
    """

    weight_bytes: float
    flop_per_token: float
    kv_bytes_per_token: float
    flop_per_pair: float
    flop_per_s: float
    bytes_per_s: float
    overhead_s: float = 0.0
    experts: int = 0
    experts_per_token: int = 0
    shared_bytes: float = 0.0

    def __post_init__(self) -> None:
        """Raises `ConfigurationError` for a rate of 0 or a negative size."""
        positive("flop_per_s", self.flop_per_s)
        positive("bytes_per_s", self.bytes_per_s)
        for name in (
            "weight_bytes",
            "flop_per_token",
            "kv_bytes_per_token",
            "flop_per_pair",
            "overhead_s",
            "shared_bytes",
        ):
            at_least_zero(name, getattr(self, name))

    def step_s(self, load: StepLoad) -> float:
        """Seconds a step of this load takes; 0 for an empty one."""
        if not load.slices:
            return 0.0
        matrices = max(
            self.weights_read_bytes(load.tokens) / self.bytes_per_s,
            load.tokens * self.flop_per_token / self.flop_per_s,
        )
        attention = max(
            load.context_tokens * self.kv_bytes_per_token / self.bytes_per_s,
            load.pairs * self.flop_per_pair / self.flop_per_s,
        )
        return matrices + attention + self.overhead_s

    def weights_read_bytes(self, tokens: int) -> float:
        """Bytes of weights that a step of `tokens` touches."""
        if not self.experts:
            return self.weight_bytes
        untouched = (1.0 - self.experts_per_token / self.experts) ** tokens
        routed = self.weight_bytes - self.shared_bytes
        return self.shared_bytes + routed * (1.0 - untouched)


def decode_load(batch: int, context_tokens: int, tokens_each: int = 1) -> StepLoad:
    """`batch` sequences of `context_tokens`, each with `tokens_each` new ones (K + 1 to verify)."""
    one = StepLoad().plus(context_tokens, tokens_each)
    return StepLoad(batch, batch * one.tokens, batch * one.context_tokens, batch * one.pairs)


def prefill_s(costs: StepCosts, start: int, tokens: int, chunk_tokens: int = 0) -> float:
    """Seconds to prefill `tokens` after `start`, alone, in chunks (0: in one step)."""
    chunk = chunk_tokens or max(1, tokens)
    seconds, done = 0.0, 0
    while done < tokens:
        piece = min(chunk, tokens - done)
        seconds += costs.step_s(StepLoad().plus(start + done, piece))
        done += piece
    return seconds
