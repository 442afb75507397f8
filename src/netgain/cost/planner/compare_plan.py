"""Devices side by side on five axes: never one of them alone."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from netgain.cost.first_look import Deployment, Trouble, first_axis, first_link
from netgain.cost.floors import step_floor
from netgain.cost.memory import MemoryQuestion, chips_for_one_model
from netgain.cost.model_shape import ModelShape
from netgain.cost.operations import Stored
from netgain.cost.placement import described
from netgain.cost.precision import KVFormat, WeightFormat
from netgain.cost.roofline import RooflineModel
from netgain.cost.step_work import decode
from netgain.cost.ways_out import fewest_devices
from netgain.errors import ConfigurationError
from netgain.hardware.device import Device, Family, Precision
from netgain.hardware.fact import Confidence, Fact
from netgain.report.document import (
    Axis,
    Basis,
    Cell,
    Chart,
    Column,
    Form,
    Mark,
    Report,
    Section,
    Series,
    Sign,
    Table,
)

_PREFILL_TOKENS: Final = 2048
_CONTEXT: Final = 1024
_MOVES: Final[Mapping[str, tuple[str, str, str, str]]] = {
    "CUDA": ("CUDA, CUTLASS, Triton", "CUDA runtime, NCCL", "fp8, int8, int4, fp4 on Blackwell",
             "nvidia-smi, DCGM"),
    "ROCm (HIP)": ("HIP, Composable Kernel, Triton", "ROCm runtime, RCCL",
                   "fp8 (its own encoding on MI300), int8, int4", "rocm-smi, amd-smi"),
    "SynapseAI": ("TPC-C, graph compiler", "SynapseAI, HCCL", "fp8 with calibration", "hl-smi"),
    "XLA (JAX)": ("Pallas; the compiler writes most", "XLA, libtpu", "int8; fp8 by generation",
                  "tpu-info, cloud metrics"),
    "Neuron": ("NKI; the compiler writes most", "Neuron runtime", "cFP8, int8", "neuron-top"),
    "CANN": ("Ascend C", "CANN, HCCL", "int8; formats differ by generation", "npu-smi"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class CompareAsk:
    """Devices to compare, for a model if one is given. `prices` are dollars per device hour."""

    devices: tuple[Device, ...]
    shape: ModelShape | None = None
    weights: WeightFormat | None = None
    kv: KVFormat | None = None
    batch: int = 8
    prices: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        """Raises `ConfigurationError` for nothing to compare or prices that are none."""
        if not self.devices:
            raise ConfigurationError("name one device or more, such as H100-SXM MI300X")
        if self.batch < 1:
            raise ConfigurationError(f"batch is {self.batch}: give 1 or more")
        for name, price in (self.prices or {}).items():
            if not 0 < price < 1e6:
                raise ConfigurationError(f"the price of {name} is {price:g}: give dollars an hour")


def plan_comparison(ask: CompareAsk) -> Report:
    """Five axes, what a model needs of each device, and what moves between vendors."""
    sections = [_axes_section(ask)]
    if ask.shape is not None and ask.weights is not None and ask.kv is not None:
        sections.append(_model_section(ask, ask.shape, ask.weights, ask.kv))
    sections += [_moves_section(ask), _sources_section(ask), _first_look_section()]
    best = {
        "bandwidth": max(ask.devices, key=lambda d: d.bandwidth_bytes_s.value).name,
        "memory": max(ask.devices, key=lambda d: d.memory_bytes.value).name,
        "bf16 rate": max(ask.devices, key=lambda d: _dense(d, Precision.BF16)).name,
    }
    verdict = (
        "Most of each for one device: "
        + ", ".join(f"{axis} {name}" for axis, name in best.items())
        + ". No axis decides alone.",
    )
    warnings = [
        f"{device.name}: values from memory, checked by nobody, are marked with ?."
        for device in ask.devices
        if device.low_confidence
    ]
    context: dict[str, Cell] = {"devices": ", ".join(device.name for device in ask.devices)}
    if ask.shape is not None:
        context["model"] = ask.shape.name
    return Report("Hardware compared", tuple(sections), verdict, tuple(warnings), context)


def _axes_section(ask: CompareAsk) -> Section:
    columns = (
        Column("device", "Device"),
        *(quantity.column for quantity in _QUANTITIES),
        Column("price", "price per hour", "$", Basis.ASSUMED, _POWER),
        Column("crossover", "crossover", "FLOP/byte", Basis.ASSUMED, _RATIOS, "crossover_sure"),
        Column("flops_per_w", "bf16 per W", "FLOP/s/W", Basis.ASSUMED, _RATIOS, "flops_sure"),
        Column("bytes_per_w", "bandwidth per W", "bytes/s/W", Basis.ASSUMED, _RATIOS,
               "bytes_sure"),
    )  # fmt: skip
    return Section(
        "Five axes",
        text=(
            "Rates are dense; links are one direction. A dash: the vendor does not publish it, or "
            "the device cannot do it.",
        ),
        tables=(
            Table(
                "axes",
                "Device by device",
                columns,
                tuple(_axes(ask, device) for device in ask.devices),
                Form.SIDE_BY_SIDE,
                _SIGNS,
            ),
        ),
        charts=(_chart(ask),),
    )


@dataclass(frozen=True, slots=True)
class _Quantity:
    """A line of the comparison: a fact, or a text, of each device."""

    column: Column
    of: Callable[[Device], Fact | str | int | None]


def _fact(
    key: str, label: str, unit: str, group: str, of: Callable[[Device], Fact | None]
) -> _Quantity:
    return _Quantity(Column(key, label, unit, Basis.ASSUMED, group, f"{key}_sure"), of)


def _text(key: str, label: str, group: str, of: Callable[[Device], str | int | None]) -> _Quantity:
    return _Quantity(Column(key, label, group=group), of)


_COMPUTE: Final = "Compute"
_MEMORY: Final = "Memory"
_LINKS: Final = "Links, one way"
_POWER: Final = "Power and price"
_RATIOS: Final = "Ratios"
_QUANTITIES: Final = (
    _fact("bf16", "bf16 dense", "FLOP/s", _COMPUTE, lambda d: _dense_fact(d, Precision.BF16)),
    _fact("bf16_quoted", "bf16 quoted", "FLOP/s", _COMPUTE,
          lambda d: d.rate(Precision.BF16)[1].quoted),
    _fact("bf16_reached", "bf16 reached", "FLOP/s", _COMPUTE,
          lambda d: d.rate(Precision.BF16)[1].achieved),
    _fact("fp8", "fp8 dense", "FLOP/s", _COMPUTE, lambda d: _own_rate(d, Precision.FP8)),
    _fact("int8", "int8 dense", "OP/s", _COMPUTE, lambda d: _own_rate(d, Precision.INT8)),
    _fact("fp4", "fp4 dense", "FLOP/s", _COMPUTE, lambda d: _own_rate(d, Precision.FP4)),
    _fact("memory", "capacity", "bytes", _MEMORY, lambda d: d.memory_bytes),
    _text("sheet", "the sheet says", _MEMORY, lambda d: d.sheet_memory),
    _fact("bandwidth", "bandwidth", "bytes/s", _MEMORY, lambda d: d.bandwidth_bytes_s),
    _text("link", "to other devices", _LINKS, lambda d: d.scale_up.link if d.scale_up else "none"),
    _fact("per_direction", "to all of them", "bytes/s", _LINKS,
          lambda d: d.scale_up.per_direction_bytes_s if d.scale_up else None),
    _fact("pair", "to one of them", "bytes/s", _LINKS,
          lambda d: d.scale_up.pair_bytes_s if d.scale_up else None),
    _text("domain", "devices joined", _LINKS, lambda d: d.scale_up.domain if d.scale_up else 1),
    _fact("host", "to the host", "bytes/s", _LINKS,
          lambda d: d.host.per_direction_bytes_s if d.host else None),
    _fact("power", "power", "W", _POWER, lambda d: d.power_w),
)  # fmt: skip
_SIGNS: Final = (
    Sign("memory", "?", "from memory, checked by nobody"),
    Sign("derived", "~", "derived from values that were read"),
    Sign("measured", "!", "measured on the device"),
)


def _axes(ask: CompareAsk, device: Device) -> dict[str, Cell]:
    row: dict[str, Cell] = {"device": device.name}
    for quantity in _QUANTITIES:
        found = quantity.of(device)
        row[quantity.column.key] = found.value if isinstance(found, Fact) else found
        if isinstance(found, Fact):
            row[quantity.column.sure] = found.confidence.value
    bf16, power = _dense_fact(device, Precision.BF16), device.power_w
    bandwidth = device.bandwidth_bytes_s
    row["price"] = _price(ask, device)
    row["crossover"] = device.crossover_flop_per_byte
    row["crossover_sure"] = _least_sure(bf16, bandwidth)
    if power is not None:
        row["flops_per_w"] = bf16.value / power.value
        row["flops_sure"] = _least_sure(bf16, power)
        row["bytes_per_w"] = bandwidth.value / power.value
        row["bytes_sure"] = _least_sure(bandwidth, power)
    return row


def _least_sure(*facts: Fact) -> str:
    """What a quotient of these is: as doubtful as the more doubtful of them."""
    doubtful = any(fact.confidence is Confidence.MEMORY for fact in facts)
    return (Confidence.MEMORY if doubtful else Confidence.READ).value


def _chart(ask: CompareAsk) -> Chart:
    first = ask.devices[0]
    measures: dict[str, Callable[[Device], float | None]] = {
        "bf16 rate": lambda d: _dense(d, Precision.BF16),
        "memory": lambda d: d.memory_bytes.value,
        "bandwidth": lambda d: d.bandwidth_bytes_s.value,
        "interconnect": lambda d: d.scale_up.per_direction_bytes_s.value if d.scale_up else None,
        "bf16 per watt": lambda d: (
            _dense(d, Precision.BF16) / d.power_w.value if d.power_w else None
        ),
    }
    series = []
    for device in ask.devices:
        shares = {
            name: value / base
            for name, of in measures.items()
            if (value := of(device)) is not None and (base := of(first))
        }
        series.append(Series(device.name, list(shares), list(shares.values()), Mark.BARS))
    return Chart(
        "five_axes",
        f"Each axis, {first.name} = 1",
        Axis("axis"),
        Axis(f"times {first.name}"),
        tuple(series),
    )


def _model_section(
    ask: CompareAsk, shape: ModelShape, weights: WeightFormat, kv: KVFormat
) -> Section:
    rows: list[dict[str, Cell]] = []
    for device in ask.devices:
        question = MemoryQuestion(shape, device, weights, kv, ask.batch, _CONTEXT)
        if device.family is Family.SRAM:
            count: int | None = chips_for_one_model(question)
            how = "spread by the compiler"
        else:
            layout = fewest_devices(question)
            count = layout.devices if layout else None
            how = described(layout) if layout else "does not fit"
        if count is None:
            rows.append({"device": device.name, "layout": how})
            continue
        stored = Stored(weights, kv)
        floor = step_floor(shape, device, stored, decode(1, _CONTEXT), count)
        model = RooflineModel(shape, device, stored)
        step = model.estimate(decode(ask.batch, _CONTEXT))
        prefill = _PREFILL_TOKENS / model.prefill_s(_PREFILL_TOKENS)
        power = device.power_w.value * count if device.power_w else None
        price = _price(ask, device)
        tokens_s = ask.batch / step.seconds * count
        rows.append(
            {
                "device": device.name,
                "devices": count,
                "layout": how,
                "floor": floor.seconds,
                "prefill": prefill * count,
                "decode": tokens_s,
                "bound": step.bound.value,
                "power": power,
                "per_w": tokens_s / power if power else None,
                "dollars": price * count / 3600 / tokens_s * 1e6 if price else None,
            }
        )
    columns = (
        Column("device", "Device"),
        Column("devices", "devices", "", Basis.ASSUMED),
        Column("layout", "layout"),
        Column("floor", "least decode step", "s", Basis.ASSUMED),
        Column("prefill", "prefill, at best", "tokens/s", Basis.ASSUMED),
        Column("decode", f"decode, batch {ask.batch}, at best", "tokens/s", Basis.ASSUMED),
        Column("bound", "bound by"),
        Column("power", "power of all", "W", Basis.ASSUMED),
        Column("per_w", "tokens per joule", "", Basis.ASSUMED),
        Column("dollars", "per million tokens", "$", Basis.ASSUMED),
    )
    return Section(
        f"{shape.name} in {weights.name}",
        text=(
            "Does it fit, is it fed, can it compute, can several work together: rates of several "
            "devices are one device's times their number, collectives not counted, so at best.",
        ),
        tables=(
            Table("model", "What the model needs of each", columns, tuple(rows), Form.SIDE_BY_SIDE),
        ),
    )


def _moves_section(ask: CompareAsk) -> Section:
    here = ask.devices[0].software
    rows: list[dict[str, Cell]] = []
    for software in dict.fromkeys(device.software for device in ask.devices):
        kernels, runtime, quantisation, monitoring = _MOVES.get(
            software, (software, software, "the vendor's own", "the vendor's")
        )
        rows.append(
            {
                "software": software,
                "devices": ", ".join(d.name for d in ask.devices if d.software == software),
                "kernels": kernels,
                "runtime": runtime,
                "quantisation": quantisation,
                "monitoring": monitoring,
                "skills": "as now" if software == here else f"new: from {here}",
            }
        )
    columns = tuple(
        Column(key, key.capitalize())
        for key in (
            "software", "devices", "kernels", "runtime", "quantisation", "monitoring", "skills"
        )
    )  # fmt: skip
    return Section(
        "What moves",
        text=(f"Compared with {ask.devices[0].name}.",),
        tables=(
            Table("moves", "Software of the devices", columns, tuple(rows), Form.SIDE_BY_SIDE),
        ),
    )


def _sources_section(ask: CompareAsk) -> Section:
    rows: list[dict[str, Cell]] = []
    for device in ask.devices:
        said: dict[tuple[str, str, str], list[str]] = {}
        for quantity in _QUANTITIES:
            found = quantity.of(device)
            if isinstance(found, Fact):
                key = (found.confidence.value, found.source, found.note)
                said.setdefault(key, []).append(quantity.column.label)
        rows += [
            {
                "device": device.name,
                "values": ", ".join(labels),
                "confidence": confidence,
                "source": source,
                "note": note,
            }
            for (confidence, source, note), labels in said.items()
        ]
        rows += [
            {"device": device.name, "values": "sources differ", "note": conflict}
            for conflict in device.conflicts
        ]
    columns = tuple(
        Column(key, key.capitalize())
        for key in ("device", "values", "confidence", "source", "note")
    )
    return Section(
        "Where the numbers come from",
        tables=(Table("sources", "Sources and conflicts", columns, tuple(rows), Form.NOTES),),
    )


def _first_look_section() -> Section:
    links = tuple(
        {"situation": d.value, "first": first_link(d).first, "also": first_link(d).also}
        for d in Deployment
    )
    axes = tuple(
        {"situation": t.value, "first": first_axis(t).first, "also": first_axis(t).also}
        for t in Trouble
    )
    columns = (
        Column("situation", "Situation"),
        Column("first", "Look at first"),
        Column("also", "and at"),
    )
    return Section(
        "Where to look first",
        tables=(
            Table("first_link", "The first link to examine", columns, links),
            Table("first_axis", "The first axis to examine", columns, axes),
        ),
    )


def _dense_fact(device: Device, precision: Precision) -> Fact:
    return device.rate(precision)[1].dense


def _dense(device: Device, precision: Precision) -> float:
    return _dense_fact(device, precision).value


def _own_rate(device: Device, precision: Precision) -> Fact | None:
    rate = device.rates.get(precision)
    return rate.dense if rate else None


def _price(ask: CompareAsk, device: Device) -> float | None:
    given = (ask.prices or {}).get(device.name)
    if given is not None:
        return given
    return device.price_per_hour.value if device.price_per_hour else None
