"""What bounds it: prefill, decode and verify of one model on one device's roofline."""

from collections.abc import Sequence
from dataclasses import dataclass

from netgain.cost.floors import step_floor
from netgain.cost.intensity import matmul_intensity
from netgain.cost.kv_bytes import kv_copies
from netgain.cost.layout import ONE_DEVICE, Layout
from netgain.cost.memory import MemoryQuestion, chips_for_one_model
from netgain.cost.model_shape import ModelShape
from netgain.cost.placement import described
from netgain.cost.planner.collectives_section import (
    TimedStep,
    collectives_section,
    unchecked_links,
)
from netgain.cost.planner.setup import Setup
from netgain.cost.precision import KVFormat, WeightFormat
from netgain.cost.roofline import (
    ASSUMED_EFFICIENCY,
    ASSUMED_UNPACKED_FRACTION,
    Efficiency,
    RooflineModel,
    StepEstimate,
)
from netgain.cost.step_work import StepWork, decode, prefill, verify
from netgain.errors import ConfigurationError
from netgain.hardware.device import Device, Family, Precision
from netgain.hardware.topology import Topology
from netgain.report.document import (
    Axis,
    Basis,
    Cell,
    Chart,
    Column,
    Figure,
    Form,
    Mark,
    Report,
    Section,
    Series,
    Table,
)


@dataclass(frozen=True, slots=True)
class RooflineAsk:
    """What `netgain plan roofline` is asked.

    `context` tokens are held by each sequence while it decodes; `prompts` are lengths to prefill;
    `drafts` tokens are verified at a time (0: no verify points). `topology` joins the devices of a
    layout that has more than one: collectives are timed on it.
    """

    shape: ModelShape
    weights: WeightFormat
    kv: KVFormat
    source: str
    device: Device
    layout: Layout = ONE_DEVICE
    batches: tuple[int, ...] = (1, 8, 64)
    context: int = 1024
    prompts: tuple[int, ...] = (64, 512, 2048)
    drafts: int = 4
    efficiency: Efficiency = ASSUMED_EFFICIENCY
    topology: Topology | None = None

    def __post_init__(self) -> None:
        """Raises `ConfigurationError` for empty or negative traffic."""
        for name, sizes in (("batch", self.batches), ("prompt", self.prompts)):
            if not sizes or min(sizes) < 1:
                raise ConfigurationError(f"{name}: give lengths of 1 or more, such as 1,8,64")
        if self.context < 1 or self.drafts < 0:
            raise ConfigurationError("context must be 1 or more, and drafts 0 or more")
        if self.topology is None and self.layout.devices > 1:
            raise ConfigurationError(
                f"{described(self.layout)}: name what joins the devices, or their collectives "
                "cannot be timed"
            )

    @property
    def setup(self) -> Setup:
        """The engine that is asked about."""
        return Setup(
            self.shape,
            self.device,
            self.weights,
            self.kv,
            self.layout,
            self.topology,
            self.efficiency,
        )


@dataclass(frozen=True, slots=True)
class _Point:
    phase: str
    label: str
    work: StepWork
    sequences: int


def plan_roofline(ask: RooflineAsk) -> Report:
    """The roof, the points under it, and the operations of two of them.

    Raises `ConfigurationError` for a layout the model cannot have.
    """
    model = ask.setup.steps()
    points = _points(ask)
    estimates = [(point, model.estimate(point.work)) for point in points]
    one_decode = next((p, e) for p, e in estimates if p.phase == "decode")
    found: dict[str, dict[str, None]] = {}
    for point, step in estimates:
        found.setdefault(point.phase, {})[step.bound.value] = None
    bounds = "; ".join(f"{phase}: {', then '.join(by)}" for phase, by in found.items())
    longest = max(
        ((p, e) for p, e in estimates if p.phase == "prefill"), key=lambda pair: pair[0].work.tokens
    )
    verdict = [
        f"What bounds each: {bounds}.",
        "A plot like this is a hypothesis: kernels, caches and communication move the points. "
        "Measure.",
    ]
    sections = [_roof_section(ask, model), _points_section(ask, model, estimates)]
    collectives = ask.setup.collectives()
    if collectives is not None:
        decodes = [pair for pair in estimates if pair[0].phase == "decode"]
        shown = {p.label: (p, e) for p, e in (decodes[0], decodes[-1], longest)}
        crossing = collectives_section(
            ask.setup,
            collectives,
            [TimedStep(f"{p.phase}, {p.label}", p.work, e) for p, e in shown.values()],
        )
        sections.append(crossing)
        step = decodes[0][1]
        verdict.insert(
            1,
            f"{described(ask.layout)}: {step.communication_s / step.seconds:.0%} of a decode step "
            f"at {decodes[0][0].label} is collectives, none of it overlapped.",
        )
    sections.append(
        Section(
            "Operation by operation",
            text=("A step takes the sum of these, not the longer of two sums.",),
            tables=(
                _operations("decode_operations", "Decode, the smallest batch", one_decode[1]),
                _operations("prefill_operations", f"Prefill, {longest[0].label}", longest[1]),
            ),
        )
    )
    return Report(
        f"{ask.shape.name} on {ask.device.name}: what bounds it?",
        tuple(sections),
        tuple(verdict),
        tuple(_warnings(ask)),
        {
            "model": ask.shape.name,
            "read from": ask.source,
            "weights": ask.weights.name,
            "keys and values": ask.kv.name,
            "device": ask.device.name,
            "layout": described(ask.layout),
            "topology": ask.topology.name if ask.topology else None,
            "context": ask.context,
        },
    )


def _points(ask: RooflineAsk) -> tuple[_Point, ...]:
    found = [
        _Point("prefill", f"{tokens:,} tokens", prefill(tokens), 1)
        for tokens in sorted(set(ask.prompts))
    ]
    batches = sorted(set(ask.batches))
    found += [_Point("decode", f"batch {b}", decode(b, ask.context), b) for b in batches]
    if ask.drafts:
        found += [
            _Point("verify", f"batch {b} x {ask.drafts + 1}", verify(b, ask.context, ask.drafts), b)
            for b in batches
        ]
    return tuple(found)


def _roof_section(ask: RooflineAsk, model: RooflineModel) -> Section:
    device = ask.device
    precision = _main_precision(ask)
    computes_in, rate = device.rate(precision)
    peak, bandwidth = rate.dense, device.bandwidth_bytes_s
    basis = peak.basis if peak.basis is bandwidth.basis else Basis.ASSUMED
    one = step_floor(ask.shape, device, model.stored, decode(1, 1), ask.layout.tp)
    crossover = peak.value / bandwidth.value
    figures = [
        Figure(
            "peak_flop_s", f"Dense peak, {computes_in.value}", peak.value, "FLOP/s", peak.basis,
            f"the sheet prints {rate.quoted.value / 1e12:,.5g} TFLOPS, with sparsity"
            if rate.quoted else "", peak.cited,
        ),
        Figure(
            "bandwidth_bytes_s", "Memory bandwidth", bandwidth.value, "bytes/s", bandwidth.basis,
            bandwidth.note, bandwidth.cited,
        ),
        Figure(
            "crossover_flop_per_byte", "Crossover", crossover, "FLOP/byte", basis,
            f"{peak.value / 1e12:,.6g} TFLOPS / {bandwidth.value / 1e9:,.6g} GB/s = "
            f"{crossover:.0f} FLOP/B: ideal peaks, without launch, cache or communication cost",
            "roofline: attainable = min(peak, intensity x bandwidth)",
        ),
        Figure(
            "weight_read_floor_s", "Least time of a decode step", one.memory_s, "s", basis,
            f"{one.bytes / 1e9:,.4g} GB read / {bandwidth.value * ask.layout.tp / 1e12:,.4g} TB/s",
            "every weight a token meets is read once; the embedding table is only looked up",
        ),
        Figure(
            "critical_batch", "Batch at which weights stop binding",
            _critical_batch(ask, peak.value, bandwidth.value), "sequences", basis,
            f"{peak.value / 1e12:,.5g} TFLOPS x {ask.weights.bytes:.4g} B / "
            f"(2 x {bandwidth.value / 1e12:,.4g} TB/s)",
            "B* = P b / (2 BW); keys and values come on top, experts need more",
        ),
    ]  # fmt: skip
    if device.family is Family.SRAM:
        question = MemoryQuestion(
            ask.shape, device, ask.weights, ask.kv, max(ask.batches), ask.context
        )
        chips = chips_for_one_model(question)
        figures.append(
            Figure(
                "chips_for_one_model", "Chips that one model fills", chips, "", Basis.ASSUMED,
                f"(weights + keys and values of {max(ask.batches)} x {ask.context:,} tokens) / "
                f"{device.memory_bytes.value:,.0f} B", device.memory_bytes.cited,
            )
        )  # fmt: skip
    rows: list[dict[str, Cell]] = [
        {
            "level": level.name,
            "size": level.size_bytes.value,
            "bandwidth": level.bandwidth_bytes_s.value if level.bandwidth_bytes_s else None,
            "crossover": peak.value / level.bandwidth_bytes_s.value
            if level.bandwidth_bytes_s
            else None,
            "source": level.size_bytes.cited,
        }
        for level in device.levels
    ]
    rows.append(
        {
            "level": "device memory",
            "size": device.memory_bytes.value,
            "bandwidth": bandwidth.value,
            "crossover": crossover,
            "source": device.memory_bytes.cited,
        }
    )
    columns = (
        Column("level", "Level"),
        Column("size", "Size", "bytes", Basis.ASSUMED),
        Column("bandwidth", "Bandwidth", "bytes/s", Basis.ASSUMED),
        Column("crossover", "Crossover", "FLOP/byte", Basis.ASSUMED),
        Column("source", "Source"),
    )
    return Section(
        "The roof",
        figures=tuple(figures),
        tables=(
            Table("memory_levels", "Levels of memory", columns, tuple(rows)),
            _layer_table(ask, crossover),
            *_conflict_tables(device),
        ),
    )


def _conflict_tables(device: Device) -> tuple[Table, ...]:
    """Where other sources print other values: nothing that makes the answer doubtful."""
    if not device.conflicts:
        return ()
    return (
        Table(
            "conflicts",
            "Where sources differ",
            (Column("device", "Device"), Column("note", "Note")),
            tuple({"device": device.name, "note": note} for note in device.conflicts),
            Form.NOTES,
        ),
    )


def _layer_table(ask: RooflineAsk, crossover: float) -> Table:
    """One square product of the model's width by tokens: why prefill climbs and decode does not."""
    hidden = ask.shape.hidden
    tokens = sorted({1, *ask.batches, *ask.prompts})
    each = ask.weights.bytes
    return Table(
        "layer_intensity",
        f"One product of tokens x {hidden:,} by {hidden:,} x {hidden:,}, {each:.3g} bytes a value",
        (
            Column("tokens", "Tokens", "", Basis.EXACT),
            Column("intensity", "Intensity", "FLOP/byte", Basis.EXACT),
            Column("of_crossover", "Of the crossover", "ratio", Basis.ASSUMED),
        ),
        tuple(
            {
                "tokens": rows,
                "intensity": (intensity := matmul_intensity(rows, hidden, hidden, each)),
                "of_crossover": intensity / crossover,
            }
            for rows in tokens
        ),
    )


def _points_section(
    ask: RooflineAsk, model: RooflineModel, estimates: Sequence[tuple[_Point, StepEstimate]]
) -> Section:
    with_experts = ask.shape.experts is not None
    rows: list[dict[str, Cell]] = []
    for point, step in estimates:
        produced = point.work.tokens if point.phase == "prefill" else point.sequences
        low, high = model.expert_range_s(point.work)
        rows.append(
            {
                "phase": point.phase,
                "load": point.label,
                "intensity": step.intensity,
                "flops": step.flops,
                "bytes": step.bytes,
                "step_s": step.seconds,
                "fastest_s": low if with_experts else None,
                "slowest_s": high if with_experts else None,
                "tokens_s": produced / step.seconds,
                "bound": step.bound.value,
                "share": step.shares_s[step.bound] / step.seconds,
            }
        )
    columns = (
        Column("phase", "Phase"),
        Column("load", "Load"),
        Column("intensity", "Intensity", "FLOP/byte", Basis.EXACT),
        Column("flops", "Arithmetic", "FLOP", Basis.EXACT),
        Column("bytes", "Moved", "bytes", Basis.EXACT),
        Column("step_s", "Step", "s", ask.efficiency.basis),
        *(
            (
                Column("fastest_s", "Fastest", "s", Basis.ASSUMED),
                Column("slowest_s", "Slowest", "s", Basis.ASSUMED),
            )
            if with_experts
            else ()
        ),
        Column("tokens_s", "Tokens", "tokens/s", ask.efficiency.basis),
        Column("bound", "Bound by"),
        Column("share", "for this share", "ratio", ask.efficiency.basis),
    )
    share = ask.efficiency.memory
    experts = (
        "Experts: nobody knows routing and the engine's kernels beforehand. Fastest: the best "
        "kernels that were measured and the kinder of skewed and uniform routing; slowest: the "
        f"worst, uniform. The step assumes uniform routing and {ASSUMED_UNPACKED_FRACTION:.0%} of "
        "the usual bandwidth where weights below 8 bits are unpacked.",
    )
    return Section(
        "Points under it",
        text=(
            f"Steps assume {share:.0%} of the bandwidth, the matrix rate a benchmark reached (or "
            f"70 %), and {ask.efficiency.launch_s * 1e6:g} us per kernel. A verify step counts one "
            "token per sequence: multiply by the accept length.",
            *(experts if with_experts else ()),
        ),
        tables=(Table("points", "Prefill, decode and verify", columns, tuple(rows)),),
        charts=(_chart(ask, estimates),),
    )


def _chart(ask: RooflineAsk, estimates: Sequence[tuple[_Point, StepEstimate]]) -> Chart:
    device = ask.device
    computes_in, rate = device.rate(_main_precision(ask))
    peak, bandwidth = rate.dense.value, device.bandwidth_bytes_s.value
    crossover = peak / bandwidth
    intensities = [step.intensity for _, step in estimates]
    left = min(0.5, *intensities)
    right = max(4 * crossover, 2 * max(intensities))
    roofs = [
        Series(
            f"device memory, {computes_in.value}",
            [left, crossover, right],
            [left * bandwidth, peak, peak],
        )
    ]
    for level in device.levels:
        if level.bandwidth_bytes_s and level.bandwidth_bytes_s.value > bandwidth:
            inner = level.bandwidth_bytes_s.value
            roofs.append(
                Series(level.name, [left, peak / inner, right], [left * inner, peak, peak])
            )
    points = []
    for phase in ("prefill", "decode", "verify"):
        of_phase = [(point, step) for point, step in estimates if point.phase == phase]
        if of_phase:
            points.append(
                Series(
                    phase,
                    [step.intensity for _, step in of_phase],
                    [step.flops / step.seconds for _, step in of_phase],
                    Mark.POINTS,
                    texts=[
                        f"{phase}, {point.label}: {step.seconds * 1e3:.3g} ms, {step.bound.value}"
                        for point, step in of_phase
                    ],
                )
            )
    return Chart(
        "roofline",
        f"{ask.shape.name} under the roof of {device.name}",
        Axis("arithmetic intensity", "FLOP/byte", log=True),
        Axis("rate", "FLOP/s", log=True),
        (*roofs, *points),
    )


def _operations(name: str, title: str, step: StepEstimate) -> Table:
    rows: list[dict[str, Cell]] = [
        {
            "operation": timed.operation.name,
            "launches": timed.launches,
            "precision": timed.operation.precision.value,
            "intensity": timed.operation.intensity,
            "bytes": timed.operation.bytes,
            "seconds": timed.seconds,
            "bound": timed.bound.value,
        }
        for timed in sorted(step.operations, key=lambda timed: -timed.seconds)
    ]
    rows.append({"operation": "launches", "seconds": step.overhead_s, "bound": "launch overhead"})
    if step.communication_s:
        rows.append(
            {
                "operation": "collectives",
                "seconds": step.communication_s,
                "bound": "interconnect",
            }
        )
    columns = (
        Column("operation", "Operation"),
        Column("launches", "Launches", "", Basis.ASSUMED),
        Column("precision", "Precision"),
        Column("intensity", "Intensity", "FLOP/byte", Basis.EXACT),
        Column("bytes", "Moved", "bytes", Basis.EXACT),
        Column("seconds", "Time", "s", Basis.ASSUMED),
        Column("bound", "Bound by"),
    )
    return Table(name, title, columns, tuple(rows))


def _warnings(ask: RooflineAsk) -> list[str]:
    found = list(ask.shape.notes)
    copies = kv_copies(ask.shape, ask.layout)
    if copies is not None:
        found.append(copies)
    if ask.topology is not None and ask.layout.devices > 1:
        found += unchecked_links(ask.topology)
    if ask.device.low_confidence:
        found.append(f"{ask.device.name}: some values are from memory, unchecked.")
    return found


def _main_precision(ask: RooflineAsk) -> Precision:
    return ask.weights.computes_in


def _critical_batch(ask: RooflineAsk, peak: float, bandwidth: float) -> int:
    return round(peak * ask.weights.bytes / (2 * bandwidth))
