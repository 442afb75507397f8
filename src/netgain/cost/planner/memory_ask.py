"""What `netgain plan memory` is asked, and words its parts share."""

import math
from dataclasses import dataclass

from netgain.cost.kv_bytes import (
    kv_bytes_per_sequence,
)
from netgain.cost.layout import ONE_DEVICE, Layout
from netgain.cost.memory import (
    DEFAULT_SERVING,
    MemoryQuestion,
    Serving,
)
from netgain.cost.model_shape import ModelShape
from netgain.cost.precision import KVFormat, WeightFormat
from netgain.errors import ConfigurationError
from netgain.hardware.device import Device


@dataclass(frozen=True, slots=True)
class MemoryAsk:
    """What `netgain plan memory` is asked. Without a device only the model is counted.

    `source` says where the shape was read; `others` are devices that ways out may name.
    """

    shape: ModelShape
    weights: WeightFormat
    kv: KVFormat
    source: str
    sequences: int = 16
    tokens: int = 4096
    device: Device | None = None
    layout: Layout = ONE_DEVICE
    serving: Serving = DEFAULT_SERVING
    others: tuple[Device, ...] = ()

    def __post_init__(self) -> None:
        """Raises `ConfigurationError` for empty traffic."""
        for name, size in (("batch", self.sequences), ("kv-length", self.tokens)):
            if size < 1:
                raise ConfigurationError(f"{name} is {size}: give 1 or more")

    def question(self, device: Device) -> MemoryQuestion:
        """The same on this device."""
        return MemoryQuestion(
            self.shape,
            device,
            self.weights,
            self.kv,
            self.sequences,
            self.tokens,
            self.layout,
            self.serving,
        )


def layout_text(layout: Layout) -> str:
    """A layout in words."""
    sizes = (("TP", layout.tp), ("PP", layout.pp), ("DP", layout.dp), ("EP", layout.ep))
    return " x ".join(f"{name} {size}" for name, size in sizes if size > 1) or "one device"


def gib(size: float) -> str:
    """Bytes in GiB, in words."""
    return f"{size / 2**30:,.4g} GiB" if math.isfinite(size) else "unbounded"


def traffic_bytes(ask: MemoryAsk) -> int:
    """Keys and values of all sequences wanted, in whole blocks."""
    block = ask.serving.block_tokens
    one = kv_bytes_per_sequence(ask.shape, ask.tokens, ask.kv, block_tokens=block)
    return ask.sequences * one
