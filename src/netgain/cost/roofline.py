"""How long a step takes on a device: the sum over its operations of what bounds each.

    seconds = sum over operations of max(FLOPs / (eta_c x rate), bytes / (eta_m x bandwidth))
              + launches x overhead + communication

Not the maximum of the sums: a step with a compute-bound and a memory-bound half overlaps neither.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, TypeAlias

from netgain.cost.model_shape import ModelShape
from netgain.cost.operations import Operation, Stored, step_operations
from netgain.cost.step_time import StepLoad
from netgain.cost.step_work import StepWork, decode, of_load, prefill
from netgain.errors import ConfigurationError
from netgain.hardware.device import Device, Precision
from netgain.report.document import Basis

ASSUMED_MEMORY_FRACTION: Final = 0.8
ASSUMED_COMPUTE_FRACTION: Final = 0.7
ASSUMED_LAUNCH_S: Final = 3e-6
ASSUMED_GROUPED_FRACTION: Final = 0.65
ASSUMED_UNPACKED_FRACTION: Final = 0.62

Communication: TypeAlias = Callable[[int, int], float]
"""Seconds of collectives in a step of so many tokens and rows of logits; what a topology says."""


class Bound(StrEnum):
    """What an operation, or most of a step, waits for."""

    COMPUTE = "compute"
    MEMORY = "memory bandwidth"
    OVERHEAD = "launch overhead"
    COMMUNICATION = "interconnect"


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Shares of the peaks that a step reaches, and seconds per kernel launched.

    `compute` None: what a matrix benchmark measured on the device for that precision, or 0.7.
    Source of the defaults: aiconfigurator, 80 % of bandwidth and 3 us per operation.
    `grouped` and `unpacked` are factors on those for products over experts: on the rate, and on the
    bandwidth where weights below 8 bits are unpacked. `waste` is the share that counts of the empty
    rows of their tiles, and of what the slowest expert rank does more than the mean; `routing` a
    factor on the launches around them.
    """

    memory: float = ASSUMED_MEMORY_FRACTION
    compute: float | None = None
    launch_s: float = ASSUMED_LAUNCH_S
    basis: Basis = Basis.ASSUMED
    grouped: float = ASSUMED_GROUPED_FRACTION
    unpacked: float = ASSUMED_UNPACKED_FRACTION
    waste: float = 1.0
    routing: float = 1.0

    def __post_init__(self) -> None:
        """Raises `ConfigurationError` for shares outside (0, 1]."""
        for name, share in (
            ("memory", self.memory),
            ("compute", self.compute or 1.0),
            ("grouped", self.grouped),
            ("unpacked", self.unpacked),
        ):
            if not 0.0 < share <= 1.0:
                raise ConfigurationError(f"{name} efficiency is {share:g}: give 0 < share <= 1")
        if self.launch_s < 0:
            raise ConfigurationError("a launch cannot take less than no time")


ASSUMED_EFFICIENCY: Final = Efficiency()
FASTEST_UNPACKED_FRACTION: Final = 0.97
SLOWEST_UNPACKED_FRACTION: Final = 0.33
SLOWEST_ROUTING: Final = 4.0
SKEWED_ROUTING: Final = 0.8
"""How engines differ on an H200 and an H100, by kernel times in aiconfigurator (systems/data,
095f58a5): 26 to 78 % of the bandwidth where 4 bits are unpacked (SGLang, TensorRT-LLM; vLLM 50 %),
28 to 113 us around the products of a block. Its skewed load (power law 1.01) meets as many experts
as an exponent of 0.8."""


@dataclass(frozen=True, slots=True)
class TimedOperation:
    """An operation, its two times, which of them counts, and kernels launched for it."""

    operation: Operation
    compute_s: float
    memory_s: float
    launches: float

    @property
    def seconds(self) -> float:
        """The longer of the two."""
        return max(self.compute_s, self.memory_s)

    @property
    def bound(self) -> Bound:
        """What it waits for."""
        return Bound.COMPUTE if self.compute_s > self.memory_s else Bound.MEMORY


@dataclass(frozen=True, slots=True)
class StepEstimate:
    """A step's time, operation by operation."""

    operations: tuple[TimedOperation, ...]
    overhead_s: float
    communication_s: float

    @property
    def seconds(self) -> float:
        """All of it."""
        return sum(op.seconds for op in self.operations) + self.overhead_s + self.communication_s

    @property
    def flops(self) -> float:
        """Operations counted."""
        return sum(op.operation.flops for op in self.operations)

    @property
    def bytes(self) -> float:
        """Bytes moved to and from device memory."""
        return sum(op.operation.bytes for op in self.operations)

    @property
    def intensity(self) -> float:
        """FLOP per byte of the step."""
        return self.flops / self.bytes if self.bytes else 0.0

    @property
    def shares_s(self) -> dict[Bound, float]:
        """Seconds spent waiting for each resource."""
        shares = {
            Bound.COMPUTE: 0.0,
            Bound.MEMORY: 0.0,
            Bound.OVERHEAD: self.overhead_s,
            Bound.COMMUNICATION: self.communication_s,
        }
        for op in self.operations:
            shares[op.bound] += op.seconds
        return shares

    @property
    def bound(self) -> Bound:
        """The resource most of the step waits for."""
        shares = self.shares_s
        return max(shares, key=lambda name: shares[name])


@dataclass(frozen=True, slots=True)
class RooflineModel:
    """One model, stored in one way, on devices of one kind.

    `communication` gives the collectives' seconds; None counts none.
    """

    shape: ModelShape
    device: Device
    stored: Stored
    efficiency: Efficiency = ASSUMED_EFFICIENCY
    communication: Communication | None = None

    def __post_init__(self) -> None:
        """Raises `ConfigurationError` for a layout this model cannot have."""
        self.stored.layout.check(self.shape)

    def estimate(self, work: StepWork) -> StepEstimate:
        """The step's operations with their times."""
        operations = step_operations(self.shape, self.stored, work)
        timed = tuple(
            TimedOperation(op, self._compute_s(op), self._memory_s(op), self._launches(op))
            for op in operations
        )
        launches = sum(op.launches for op in timed)
        shared = 0.0
        if self.communication and operations:
            shared = self.communication(work.tokens, work.logit_rows)
        return StepEstimate(timed, launches * self.efficiency.launch_s, shared)

    def expert_range_s(self, work: StepWork) -> tuple[float, float]:
        """Fastest and slowest step by what nobody knows beforehand: routing, and the engine.

        Fastest: the best kernels known and the kinder routing (skewed, so that fewer experts are
        read, or uniform, so that expert ranks are equal); slowest: the worst, uniform. Without
        experts both are the estimate.
        """
        if self.shape.experts is None:
            seconds = self.seconds(work)
            return seconds, seconds
        best = replace(self.efficiency, unpacked=FASTEST_UNPACKED_FRACTION)
        worst = replace(
            self.efficiency, unpacked=SLOWEST_UNPACKED_FRACTION, routing=SLOWEST_ROUTING
        )
        skew = max(SKEWED_ROUTING, self.stored.expert_skew)
        fast = replace(self, efficiency=best)
        skewed = replace(fast, stored=replace(self.stored, expert_skew=skew))
        low = min(fast.seconds(work), skewed.seconds(work))
        return low, replace(self, efficiency=worst).seconds(work)

    def step_s(self, load: StepLoad) -> float:
        """Seconds of a step of this load: its slices are taken as equally long."""
        return self.seconds(of_load(load)) if load.slices else 0.0

    def seconds(self, work: StepWork) -> float:
        """Seconds of a step."""
        return self.estimate(work).seconds

    def decode_s(self, sequences: int, context: int) -> float:
        """Seconds of a decode step of `sequences` after `context` tokens each."""
        return self.seconds(decode(sequences, context))

    def prefill_s(self, tokens: int, cached: int = 0, chunk: int | None = None) -> float:
        """Seconds to prefill one sequence, in steps of at most `chunk` tokens."""
        seconds, done = 0.0, 0
        while done < tokens:
            new = min(chunk or tokens, tokens - done)
            seconds += self.seconds(prefill(new, cached + done))
            done += new
        return seconds

    def rate_flop_s(self, precision: Precision) -> float:
        """FLOP/s a matrix product of this precision reaches here."""
        _, rate = self.device.rate(precision)
        measured = rate.achieved_fraction
        share = self.efficiency.compute or measured or ASSUMED_COMPUTE_FRACTION
        return rate.dense.value * min(1.0, share)

    def calibrated(self, work: StepWork, measured_s: float) -> "RooflineModel":
        """This model with the memory share at which `work` takes the measured time.

        Raises `ConfigurationError` where no share does: faster than the peaks, or slower than a
        hundredth of them.
        """
        low, high = 0.01, 1.0
        if not (
            self._with_memory(high).seconds(work)
            <= measured_s
            <= self._with_memory(low).seconds(work)
        ):
            fastest = self._with_memory(high).seconds(work)
            raise ConfigurationError(
                f"{measured_s:.4g} s cannot be explained by memory bandwidth: at the full rate of "
                f"{self.device.name} the step takes {fastest:.4g} s"
            )
        for _ in range(60):
            middle = (low + high) / 2
            if self._with_memory(middle).seconds(work) > measured_s:
                low = middle
            else:
                high = middle
        return self._with_memory(high)

    def _compute_s(self, op: Operation) -> float:
        flops = op.flops + self.efficiency.waste * op.padding_flops
        share = self.efficiency.grouped if op.grouped else 1.0
        rate = self.rate_flop_s(op.precision) * share
        return self._slowest(op) * flops / rate if flops else 0.0

    def _memory_s(self, op: Operation) -> float:
        bandwidth = self.device.bandwidth_bytes_s.value * self.efficiency.memory
        share = self.efficiency.unpacked if self._unpacks(op) else 1.0
        return self._slowest(op) * op.bytes / (bandwidth * share)

    def _slowest(self, op: Operation) -> float:
        return 1.0 + self.efficiency.waste * (op.slowest - 1.0)

    def _launches(self, op: Operation) -> float:
        unpacked = op.unpacked_launches if self._unpacks(op) else 0
        routing = op.grouped and not op.bytes
        return op.launches * (self.efficiency.routing if routing else 1.0) + unpacked

    def _unpacks(self, op: Operation) -> bool:
        return op.narrow and self.device.rate(op.precision)[0] is not Precision.FP4

    def _with_memory(self, share: float) -> "RooflineModel":
        efficiency = replace(self.efficiency, memory=share, basis=Basis.CALIBRATED)
        return replace(self, efficiency=efficiency)
