"""The least a step can take on some devices: what nobody can beat."""

from dataclasses import dataclass, replace
from typing import Final

from netgain.cost.layout import ONE_DEVICE
from netgain.cost.model_shape import ModelShape
from netgain.cost.operations import Stored, step_operations, unavoidable_bytes
from netgain.cost.step_work import StepWork
from netgain.hardware.device import Device, Precision

_NARROW_BITS: Final = 12
_FOUR_BIT_BITS: Final = 6
_ALL_ALIKE: Final = 64.0
"""A skew at which every token meets the same `top_k` experts."""


@dataclass(frozen=True, slots=True)
class Floor:
    """The least a step can take: `bytes` at full bandwidth, or `flops` at the full rate."""

    bytes: float
    memory_s: float
    compute_s: float

    @property
    def seconds(self) -> float:
        """The longer of the two."""
        return max(self.memory_s, self.compute_s)


def step_floor(
    shape: ModelShape,
    device: Device,
    stored: Stored,
    work: StepWork,
    devices: int = 1,
    read: StepWork | None = None,
) -> Floor:
    """The least a step can take on `devices` together, however it is laid out.

    Activations may stay on the chip, and reading may overlap all arithmetic. Narrow weights may be
    multiplied at the fastest rate the device has for them. What fits into the last cache of the
    devices is read at that cache's bandwidth, where it is known. `read` is the work whose bytes
    count where that is less than all of `work`: sequences that share their context.
    """
    whole = replace(stored, layout=ONE_DEVICE)
    moved = unavoidable_bytes(shape, whole, read or work)
    compute_s = sum(
        op.flops / _fastest_flop_s(device, op.precision, stored.weights.bits)
        for op in step_operations(shape, whole, work)
    )
    memory_s = moved / device.bandwidth_bytes_s.value
    for level in device.levels:
        if moved <= level.size_bytes.value * devices:
            bandwidth = level.bandwidth_bytes_s
            memory_s = 0.0 if bandwidth is None else moved / bandwidth.value
    return Floor(moved, memory_s / devices, compute_s / devices)


def with_experts_alike(stored: Stored) -> Stored:
    """Routing in which all tokens of a step meet the same experts: the fewest weights read."""
    return replace(stored, expert_skew=_ALL_ALIKE)


def _fastest_flop_s(device: Device, precision: Precision, weight_bits: float) -> float:
    rates = [device.rate(precision)[1].dense.value]
    if weight_bits < _NARROW_BITS:
        narrow = {Precision.FP8, Precision.INT8}
        if weight_bits < _FOUR_BIT_BITS:
            narrow.add(Precision.FP4)
        rates += [rate.dense.value for known, rate in device.rates.items() if known in narrow]
    return max(rates)
