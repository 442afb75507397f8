"""What a device can do: rates, memory, links, power. Values are facts with sources."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from netgain.hardware.fact import Confidence, Fact


class Precision(StrEnum):
    """The number formats a matrix unit multiplies in. bf16 stands for fp16 too."""

    FP32 = "fp32"
    BF16 = "bf16"
    FP8 = "fp8"
    INT8 = "int8"
    FP4 = "fp4"


class Family(StrEnum):
    """What kind of machine a device is."""

    GPU = "gpu"
    CLOUD = "cloud accelerator"
    REGIONAL = "regional accelerator"
    SRAM = "SRAM machine"
    DATAFLOW = "dataflow accelerator"
    CPU = "cpu"
    RACK = "rack-scale GPU"


class Fabric(StrEnum):
    """How the devices of one scale-up domain are joined."""

    NONE = "none"
    SWITCH = "switch"
    BRIDGE = "bridge pair"
    MESH = "all-to-all mesh"
    TORUS_2D = "2D torus"
    TORUS_3D = "3D torus"
    RING = "ring"
    ETHERNET = "Ethernet"
    WAFER = "wafer"
    OTHER = "point to point"


@dataclass(frozen=True, slots=True)
class Rate:
    """Matrix rate of one precision, FLOP/s (or integer operations/s).

    `dense` is what real matrices can reach at most; `quoted` what the sheet prints where that
    differs (mostly with sparsity); `achieved` what a matrix benchmark measured.
    """

    dense: Fact
    quoted: Fact | None = None
    achieved: Fact | None = None

    @property
    def achieved_fraction(self) -> float | None:
        """The measured share of the dense peak."""
        return None if self.achieved is None else self.achieved.value / self.dense.value


@dataclass(frozen=True, slots=True)
class MemoryLevel:
    """One level between the matrix units and device memory."""

    name: str
    size_bytes: Fact
    bandwidth_bytes_s: Fact | None = None


@dataclass(frozen=True, slots=True)
class ScaleUp:
    """The link to the other devices of one domain.

    `per_direction_bytes_s` is one direction of one device to all its peers together; a pair of
    devices gets `pair_bytes_s`. `domain` is how many devices the fabric joins at most.
    """

    link: str
    fabric: Fabric
    per_direction_bytes_s: Fact
    pair_bytes_s: Fact
    domain: int
    note: str = ""

    @property
    def total_bytes_s(self) -> float:
        """Both directions added, as most sheets print it."""
        return 2 * self.per_direction_bytes_s.value


@dataclass(frozen=True, slots=True)
class HostLink:
    """The link to the host's memory, one direction."""

    link: str
    per_direction_bytes_s: Fact


@dataclass(frozen=True, slots=True)
class Device:
    """One accelerator, or one CPU socket, as software sees it.

    `memory_bytes` is what the driver reports where that is known, `sheet_memory` what the sheet
    prints. `bandwidth_bytes_s` is peak; `bandwidth_fraction` the share that was measured, if any.
    `software` names the stack its kernels are written in. `conflicts` are disagreements between
    sources.
    """

    name: str
    label: str
    vendor: str
    family: Family
    software: str
    rates: Mapping[Precision, Rate]
    memory_bytes: Fact
    sheet_memory: str
    bandwidth_bytes_s: Fact
    aliases: tuple[str, ...] = ()
    bandwidth_fraction: Fact | None = None
    levels: tuple[MemoryLevel, ...] = ()
    scale_up: ScaleUp | None = None
    host: HostLink | None = None
    power_w: Fact | None = None
    price_per_hour: Fact | None = None
    conflicts: tuple[str, ...] = ()

    def rate(self, precision: Precision) -> tuple[Precision, Rate]:
        """The rate for values of `precision`, and the precision it computes in.

        A device without a unit for a narrow format unpacks its weights on the way, to bf16.
        """
        for wider in _WIDER[precision]:
            if wider in self.rates:
                return wider, self.rates[wider]
        # Every entry has a rate (the catalogue checks it): the fastest one stands in.
        best = max(self.rates, key=lambda known: self.rates[known].dense.value)
        return best, self.rates[best]

    @property
    def low_confidence(self) -> bool:
        """Whether a value that decides a plan is from memory, unchecked."""
        facts = [self.memory_bytes, self.bandwidth_bytes_s, *(r.dense for r in self.rates.values())]
        return any(fact.confidence is Confidence.MEMORY for fact in facts)

    @property
    def crossover_flop_per_byte(self) -> float:
        """Dense bf16 peak over memory bandwidth: the roofline's ridge."""
        return self.rate(Precision.BF16)[1].dense.value / self.bandwidth_bytes_s.value


_WIDER = {
    Precision.FP32: (Precision.FP32, Precision.BF16),
    Precision.BF16: (Precision.BF16, Precision.FP32),
    Precision.FP8: (Precision.FP8, Precision.BF16, Precision.FP32),
    Precision.INT8: (Precision.INT8, Precision.BF16, Precision.FP32),
    Precision.FP4: (Precision.FP4, Precision.BF16, Precision.FP32),
}
