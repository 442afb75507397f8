"""Devices side by side on five axes: never one of them alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from netgain.cost.first_look import Deployment, Trouble, first_axis, first_link
from netgain.cost.floors import step_floor
from netgain.cost.memory import MemoryQuestion, chips_for_one_model
from netgain.cost.model_shape import ModelShape
from netgain.cost.operations import Stored
from netgain.cost.precision import KVFormat, WeightFormat
from netgain.cost.roofline import RooflineModel
from netgain.cost.step_work import decode
from netgain.cost.ways_out import fewest_devices
from netgain.errors import ConfigurationError
from netgain.hardware.device import Device, Family, Precision
from netgain.hardware.fact import Fact
from netgain.report.document import (
    Axis,
    Basis,
    Cell,
    Chart,
    Column,
    Mark,
    Report,
    Section,
    Series,
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
    sections += [_moves_section(ask), _doubts_section(ask), _first_look_section()]
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
        f"{device.name}: values from memory, unchecked, are marked below."
        for device in ask.devices
        if device.low_confidence
    ]
    context: dict[str, Cell] = {"devices": ", ".join(device.name for device in ask.devices)}
    if ask.shape is not None:
        context["model"] = ask.shape.name
    return Report("Hardware compared", tuple(sections), verdict, tuple(warnings), context)


def _axes_section(ask: CompareAsk) -> Section:
    rows: list[dict[str, Cell]] = []
    for device in ask.devices:
        bf16 = device.rate(Precision.BF16)[1]
        power = device.power_w.value if device.power_w else None
        price = _price(ask, device)
        rows.append(
            {
                "device": device.name,
                "family": device.family.value,
                "bf16": bf16.dense.value,
                "bf16_quoted": bf16.quoted.value if bf16.quoted else None,
                "fp8": _own_rate(device, Precision.FP8),
                "int8": _own_rate(device, Precision.INT8),
                "fp4": _own_rate(device, Precision.FP4),
                "memory": device.memory_bytes.value,
                "sheet": device.sheet_memory,
                "bandwidth": device.bandwidth_bytes_s.value,
                "crossover": device.crossover_flop_per_byte,
                "link": device.scale_up.link if device.scale_up else "none",
                "per_direction": device.scale_up.per_direction_bytes_s.value
                if device.scale_up
                else None,
                "pair": device.scale_up.pair_bytes_s.value if device.scale_up else None,
                "domain": device.scale_up.domain if device.scale_up else 1,
                "host": device.host.per_direction_bytes_s.value if device.host else None,
                "power": power,
                "flops_per_w": bf16.dense.value / power if power else None,
                "bytes_per_w": device.bandwidth_bytes_s.value / power if power else None,
                "price": price,
            }
        )
    columns = (
        Column("device", "Device"),
        Column("family", "Kind"),
        Column("bf16", "bf16 dense", "FLOP/s", Basis.ASSUMED),
        Column("bf16_quoted", "as quoted", "FLOP/s", Basis.ASSUMED),
        Column("fp8", "fp8 dense", "FLOP/s", Basis.ASSUMED),
        Column("int8", "int8 dense", "OP/s", Basis.ASSUMED),
        Column("fp4", "fp4 dense", "FLOP/s", Basis.ASSUMED),
        Column("memory", "Memory", "bytes", Basis.ASSUMED),
        Column("sheet", "Sheet says"),
        Column("bandwidth", "Bandwidth", "bytes/s", Basis.ASSUMED),
        Column("crossover", "Crossover", "FLOP/byte", Basis.ASSUMED),
        Column("link", "Link"),
        Column("per_direction", "to all, one way", "bytes/s", Basis.ASSUMED),
        Column("pair", "to one, one way", "bytes/s", Basis.ASSUMED),
        Column("domain", "Domain"),
        Column("host", "Host, one way", "bytes/s", Basis.ASSUMED),
        Column("power", "Power", "W", Basis.ASSUMED),
        Column("flops_per_w", "Rate per W", "FLOP/s", Basis.ASSUMED),
        Column("bytes_per_w", "Bandwidth per W", "bytes/s", Basis.ASSUMED),
        Column("price", "$ per hour", "$", Basis.ASSUMED),
    )
    return Section(
        "Five axes",
        text=(
            "Rates are dense; links are one direction. A dash: the vendor does not publish it, or "
            "the device cannot do it.",
        ),
        tables=(Table("axes", "Device by device", columns, tuple(rows)),),
        charts=(_chart(ask),),
    )


def _chart(ask: CompareAsk) -> Chart:
    measures = {
        "bf16 rate": [_dense(device, Precision.BF16) for device in ask.devices],
        "memory": [device.memory_bytes.value for device in ask.devices],
        "bandwidth": [device.bandwidth_bytes_s.value for device in ask.devices],
        "interconnect": [
            device.scale_up.per_direction_bytes_s.value if device.scale_up else 0.0
            for device in ask.devices
        ],
        "bf16 per watt": [
            _dense(device, Precision.BF16) / device.power_w.value if device.power_w else 0.0
            for device in ask.devices
        ],
    }
    series = tuple(
        Series(
            device.name,
            list(measures),
            [values[place] / values[0] if values[0] else 0.0 for values in measures.values()],
            Mark.BARS,
        )
        for place, device in enumerate(ask.devices)
    )
    return Chart(
        "five_axes",
        f"Each axis, {ask.devices[0].name} = 1",
        Axis("axis"),
        Axis(f"times {ask.devices[0].name}"),
        series,
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
            how = f"TP {layout.tp} x PP {layout.pp}" if layout else "does not fit"
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
        Column("devices", "Devices", "", Basis.ASSUMED),
        Column("layout", "Layout"),
        Column("floor", "Least decode step", "s", Basis.ASSUMED),
        Column("prefill", "Prefill, at best", "tokens/s", Basis.ASSUMED),
        Column("decode", f"Decode, batch {ask.batch}, at best", "tokens/s", Basis.ASSUMED),
        Column("bound", "Bound by"),
        Column("power", "Power of all", "W", Basis.ASSUMED),
        Column("per_w", "Tokens per joule", "", Basis.ASSUMED),
        Column("dollars", "$ per million tokens", "$", Basis.ASSUMED),
    )
    return Section(
        f"{shape.name} in {weights.name}",
        text=(
            "Does it fit, is it fed, can it compute, can several work together: rates of several "
            "devices are one device's times their number, collectives not counted, so at best.",
        ),
        tables=(Table("model", "What the model needs of each", columns, tuple(rows)),),
    )


def _moves_section(ask: CompareAsk) -> Section:
    here = ask.devices[0]
    rows: list[dict[str, Cell]] = []
    for device in ask.devices:
        kernels, runtime, quantisation, monitoring = _MOVES.get(
            device.software, (device.software, device.software, "the vendor's own", "the vendor's")
        )
        same = device.software == here.software
        rows.append(
            {
                "device": device.name,
                "software": device.software,
                "kernels": kernels,
                "runtime": runtime,
                "quantisation": quantisation,
                "monitoring": monitoring,
                "skills": "as now" if same else f"from {here.software} to {device.software}",
            }
        )
    columns = tuple(
        Column(key, key.capitalize())
        for key in (
            "device", "software", "kernels", "runtime", "quantisation", "monitoring", "skills"
        )
    )  # fmt: skip
    return Section(
        "What moves",
        text=(f"Compared with {here.name}.",),
        tables=(Table("moves", "Software of each device", columns, tuple(rows)),),
    )


def _doubts_section(ask: CompareAsk) -> Section:
    rows: list[dict[str, Cell]] = []
    for device in ask.devices:
        facts: list[tuple[str, Fact | None]] = [
            ("memory", device.memory_bytes),
            ("bandwidth", device.bandwidth_bytes_s),
            ("power", device.power_w),
            *((f"{p.value} rate", rate.dense) for p, rate in device.rates.items()),
        ]
        rows += [
            {
                "device": device.name,
                "value": name,
                "confidence": fact.confidence.value,
                "source": fact.source,
                "note": fact.note,
            }
            for name, fact in facts
            if fact is not None
        ]
        rows += [{"device": device.name, "value": "conflict", "note": c} for c in device.conflicts]
    columns = tuple(
        Column(key, key.capitalize()) for key in ("device", "value", "confidence", "source", "note")
    )
    return Section(
        "Where the numbers come from",
        tables=(Table("sources", "Sources and conflicts", columns, tuple(rows)),),
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


def _dense(device: Device, precision: Precision) -> float:
    return device.rate(precision)[1].dense.value


def _own_rate(device: Device, precision: Precision) -> float | None:
    rate = device.rates.get(precision)
    return rate.dense.value if rate else None


def _price(ask: CompareAsk, device: Device) -> float | None:
    given = (ask.prices or {}).get(device.name)
    if given is not None:
        return given
    return device.price_per_hour.value if device.price_per_hour else None
