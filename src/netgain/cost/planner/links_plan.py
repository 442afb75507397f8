"""`netgain plan links`: what joins the devices, what collectives take, how to lay a model out."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from netgain.cost.bounds import at_least_zero, count
from netgain.cost.collectives import Operation
from netgain.cost.communication import LAUNCH_S, CollectiveCost, collective, ways
from netgain.cost.first_look import deployment_of, first_link
from netgain.cost.kv_bytes import kv_copies
from netgain.cost.layout import Layout
from netgain.cost.pipeline import decode_bubble, stage_layers, steady_bubble, training_bubble
from netgain.cost.placement import described, place, propose
from netgain.cost.planner.layout_handoffs import (
    Handoff,
    carried_by,
    copies_tables,
    handoff_table,
    handoffs,
    layout_section,
    rank_table,
)
from netgain.cost.planner.setup import CollectiveSeconds, Setup
from netgain.cost.step_work import decode
from netgain.errors import ConfigurationError
from netgain.hardware.topology import Topology
from netgain.report.document import (
    Axis,
    Basis,
    Cell,
    Chart,
    Column,
    Figure,
    Form,
    Report,
    Section,
    Series,
    Table,
)
from netgain.report.units import quantity

SIZES: Final = tuple(float(1 << power) for power in range(14, 31, 2))
_ALPHA_BETA: Final = "alpha-beta forms of nccl-tests on the topology's edges"


@dataclass(frozen=True, slots=True)
class LinksQuestion:
    """A topology, the first `ranks` devices of it (None: all), buffer sizes in bytes.

    `setup` is the model to lay out, if one is asked about: it needs `devices_per_model` devices
    and decodes `batch` sequences of `context_tokens` in all. `wanted` is a layout to try beside
    the proposed one.
    """

    topology: Topology
    ranks: int | None = None
    sizes: tuple[float, ...] = SIZES
    launch_s: float = LAUNCH_S
    setup: Setup | None = None
    devices_per_model: int = 1
    batch: int = 32
    context_tokens: int = 2048
    wanted: Layout | None = None

    def __post_init__(self) -> None:
        """Raises `ConfigurationError` for ranks that are not there or negative sizes."""
        if self.ranks is not None:
            count("ranks", self.ranks)
            if self.ranks > len(self.topology.devices):
                raise ConfigurationError(
                    f"{self.ranks} ranks: {self.topology.name} has "
                    f"{len(self.topology.devices)} devices; name more with --devices"
                )
        if not self.sizes:
            raise ConfigurationError("no buffer sizes: give at least one, such as 64MiB")
        for size in self.sizes:
            at_least_zero("size", size)
        count("batch", self.batch)
        count("context", self.context_tokens)

    @property
    def group(self) -> tuple[str, ...]:
        """The devices that talk."""
        return self.topology.devices[: self.ranks or len(self.topology.devices)]


def plan_links(question: LinksQuestion) -> Report:
    """Links, collectives by size, and the layout, as a report."""
    topology = question.topology
    reduced = collective(
        topology, question.group, Operation.ALL_REDUCE, 64 * 2**20, question.launch_s
    )
    sections = [_links(question), _collectives(question)]
    verdict = [
        f"{len(question.group)} devices of {topology.name}: a 64 MiB all-reduce takes "
        f"{reduced.seconds * 1e3:.3g} ms ({reduced.algorithm}), bound by {reduced.slowest}."
    ]
    warnings = []
    first = question.group[0]
    crossed = [edge for other in question.group[1:] for edge in topology.path(first, other).edges]
    assumed = {edge.wire.name: edge.wire.assumed for edge in crossed if edge.wire.assumed}
    if assumed:
        shares = "; ".join(f"{name} ({' and '.join(which)})" for name, which in assumed.items())
        warnings.append(
            f"Shares of the peak that nobody measured, assumed here: {shares}. Measure yours"
        )
    if len(question.group) > 1 and len(_inside(question)) > 1:
        sections.append(_leaving(question))
    if question.setup is not None:
        layout, said, doubts = _layouts(question, question.setup)
        sections.append(layout)
        verdict += said
        warnings += doubts
    elif question.wanted is not None:
        sections.append(layout_section(topology, question.wanted, question.launch_s))
    if question.wanted is not None and len(topology.devices) % question.wanted.devices:
        used = question.wanted.devices
        warnings.append(
            f"{described(question.wanted)} uses {used} of {len(topology.devices)} devices"
        )
    return Report(
        title=f"Links of {topology.name}",
        sections=tuple(sections),
        verdict=tuple(verdict),
        warnings=tuple(warnings),
        context={
            "topology": topology.name,
            "what": "; ".join(topology.notes),
            "devices": len(topology.devices),
            "ranks": len(question.group),
        },
    )


def _links(question: LinksQuestion) -> Section:
    topology = question.topology
    first, last = topology.devices[0], topology.devices[-1]
    figures = [Figure("devices", "Devices", len(topology.devices), "", Basis.EXACT)]
    figures.append(Figure("machines", "Machines", topology.machines, "", Basis.EXACT))
    if len(topology.devices) > 1:
        near, far = (topology.path(first, other) for other in (topology.devices[1], last))
        domains = topology.fastest_domains()
        peers = len(topology.machine_devices(first)) - 1
        half, cut = len(topology.devices) // 2, topology.bisection_bytes_per_s()
        figures += [
            Figure(
                "pair_bytes_per_s",
                "A neighbouring pair, one way",
                near.bytes_per_s,
                "bytes/s",
                Basis.ASSUMED,
                f"slowest edge of the path: {near.slowest}",
                near.slowest.wire.source,
            ),
            Figure(
                "farthest_pair_bytes_per_s",
                "First and last device, one way",
                far.bytes_per_s,
                "bytes/s",
                Basis.ASSUMED,
                f"slowest edge of the path: {far.slowest}",
                far.slowest.wire.source,
            ),
            Figure(
                "aggregate_bytes_per_s",
                "One device to all peers of its machine at once",
                topology.aggregate_bytes_per_s(first),
                "bytes/s",
                Basis.ASSUMED,
                f"{peers} equal flows, each edge shared by those that cross it",
                "a pair's rate is not an aggregate's",
            ),
            Figure(
                "bisection_bytes_per_s",
                "Between the two halves, one way",
                cut,
                "bytes/s",
                Basis.ASSUMED,
                f"largest flow from the first {half} devices to the other "
                f"{len(topology.devices) - half}: {half} x {cut / half / 1e9:.4g} GB/s",
            ),
            Figure(
                "fast_domain_devices",
                "Devices of a fastest domain",
                max(len(domain) for domain in domains),
                "",
                Basis.EXACT,
                " | ".join(", ".join(domain) for domain in domains[:4]),
            ),
        ]
    return Section(
        "Who is joined by what",
        text=(
            "Rates are peaks one way; the shares are what transfers reach of them. "
            "Keep ranks that synchronise often inside a fastest domain.",
        ),
        figures=tuple(figures),
        tables=(_wires(topology), _share_sources(topology), _levels(topology)),
    )


def _wires(topology: Topology) -> Table:
    found: dict[str, dict[str, Cell]] = {}
    for edge in topology.edges:
        wire = edge.wire
        key = f"{wire.name} {wire.bytes_per_s}"
        row = found.setdefault(
            key,
            {
                "link": wire.name,
                "edges": 0,
                "per_direction": wire.bytes_per_s,
                "total": 2 * wire.bytes_per_s,
                "collective": wire.collective,
                "send": wire.send,
                "hop": wire.hop_s,
                "assumed": ", ".join(wire.assumed) or "none",
            },
        )
        row["edges"] = int(row["edges"] or 0) + 1
    return Table(
        "links",
        "Links (each edge is one direction)",
        (
            Column("link", "Link"),
            Column("edges", "Edges", "", Basis.EXACT),
            Column("per_direction", "One way", "bytes/s", Basis.ASSUMED),
            Column("total", "Both ways", "bytes/s", Basis.ASSUMED),
            Column("collective", "Reached by a ring", "fraction", Basis.ASSUMED),
            Column("send", "Reached by one pair", "fraction", Basis.ASSUMED),
            Column("assumed", "Shares nobody measured"),
            Column("hop", "Latency of an edge", "s", Basis.ASSUMED),
        ),
        tuple(found.values()),
    )


def _share_sources(topology: Topology) -> Table:
    wires = {edge.wire.name: edge.wire for edge in topology.edges}
    return Table(
        "share_sources",
        "Where the shares come from",
        (Column("link", "Link"), Column("source", "Source"), Column("assumed", "Assumed")),
        tuple(
            {
                "link": wire.name,
                "source": wire.source,
                "assumed": f"assumed: {', '.join(wire.assumed)}" if wire.assumed else None,
            }
            for wire in wires.values()
        ),
        Form.NOTES,
    )


def _levels(topology: Topology) -> Table:
    rows: list[dict[str, Cell]] = []
    for rate in topology.levels():
        domains = topology.domains(rate)
        sizes = sorted({len(domain) for domain in domains}, reverse=True)
        rows.append(
            {
                "rate": rate,
                "domains": len(domains),
                "devices": ", ".join(map(str, sizes)),
            }
        )
    return Table(
        "domains",
        "Domains: devices that reach each other at least at this rate",
        (
            Column("rate", "One way", "bytes/s", Basis.ASSUMED),
            Column("domains", "Domains", "", Basis.EXACT),
            Column("devices", "Devices in each", "", Basis.EXACT),
        ),
        tuple(rows),
    )


def _collectives(question: LinksQuestion) -> Section:
    topology, group = question.topology, question.group
    if len(group) == 1:
        return Section("Collectives", text=("One device talks to nobody.",))
    found = {
        operation: [
            collective(topology, group, operation, size, question.launch_s)
            for size in question.sizes
        ]
        for operation in Operation
    }
    reduces = found[Operation.ALL_REDUCE]
    rows = tuple(
        {
            "size": size,
            **{operation.value: costs[index].seconds for operation, costs in found.items()},
            "way": reduces[index].algorithm.value,
            "busbw": reduces[index].busbw_bytes_per_s if size else None,
        }
        for index, size in enumerate(question.sizes)
    )
    largest = max(question.sizes)
    reduced = found[Operation.ALL_REDUCE][-1]
    return Section(
        f"Collectives among {len(group)} devices",
        text=(
            f"A launch of {question.launch_s * 1e6:.3g} us is in every time: Vidur's profiles, "
            "launched from the host. In a captured graph it is less; set it with --launch-us.",
        ),
        figures=(
            _cost_figure("all_reduce_s", f"All-reduce of {_mib(reduced.size_bytes)}", reduced),
            _cost_figure(
                "all_to_all_s",
                f"All-to-all of {_mib(largest)}",
                found[Operation.ALL_TO_ALL][-1],
            ),
            _cost_figure("send_s", f"Send of {_mib(largest)}", found[Operation.SEND][-1]),
        ),
        tables=(
            Table(
                "collectives",
                "Time of each operation by buffer size, the fastest way it has",
                (
                    Column("size", "Buffer", "bytes", Basis.EXACT),
                    *(Column(o.value, o.value, "s", Basis.ASSUMED) for o in Operation),
                    Column("way", "All-reduce way"),
                    Column("busbw", "Its bus bandwidth", "bytes/s", Basis.ASSUMED),
                ),
                rows,
            ),
            Table(
                "ways",
                f"Every way of an all-reduce of {_mib(reduced.size_bytes)}",
                (
                    Column("algorithm", "Way"),
                    Column("seconds", "Time", "s", Basis.ASSUMED),
                    Column("latency", "Of it latency", "s", Basis.ASSUMED),
                    Column("rate", "Each rank one way", "bytes/s", Basis.ASSUMED),
                    Column("slowest", "Slowest edge"),
                ),
                tuple(
                    {
                        "algorithm": way.algorithm.value,
                        "seconds": way.seconds,
                        "latency": way.latency_s,
                        "rate": way.rank_bytes_per_s,
                        "slowest": way.slowest,
                    }
                    for way in ways(
                        topology,
                        group,
                        Operation.ALL_REDUCE,
                        reduced.size_bytes,
                        question.launch_s,
                    )
                ),
            ),
        ),
        charts=(
            Chart(
                "collective_times",
                "Time by buffer size",
                Axis("Buffer", "bytes", log=True),
                Axis("Time", "s", log=True),
                tuple(
                    Series(
                        operation.value,
                        [cost.size_bytes for cost in costs],
                        [cost.seconds for cost in costs],
                    )
                    for operation, costs in found.items()
                ),
            ),
        ),
    )


def _cost_figure(name: str, label: str, cost: CollectiveCost) -> Figure:
    source = f"{_ALPHA_BETA}; {cost.source}"
    return Figure(name, label, cost.seconds, "s", Basis.ASSUMED, cost.arithmetic, source)


def _inside(question: LinksQuestion) -> tuple[str, ...]:
    """The devices of the group that share the first one's fastest domain, if not all do."""
    group = set(question.group)
    for domain in question.topology.fastest_domains():
        if question.group[0] in domain:
            inside = tuple(device for device in domain if device in group)
            return inside if len(inside) < len(group) else ()
    return ()


def _leaving(question: LinksQuestion) -> Section:
    inside = _inside(question)
    size = 64.0 * 2**20
    near = collective(question.topology, inside, Operation.ALL_REDUCE, size, question.launch_s)
    whole = collective(
        question.topology, question.group, Operation.ALL_REDUCE, size, question.launch_s
    )
    return Section(
        "When it loses: leaving the fastest domain",
        text=(
            f"{len(question.group)} devices are not one domain. Tensor parallel ranks that cross "
            f"it wait for {whole.slowest} in every layer.",
        ),
        figures=(
            _cost_figure("inside_s", f"64 MiB all-reduce inside ({len(inside)} devices)", near),
            _cost_figure("across_s", f"64 MiB all-reduce across ({whole.ranks} devices)", whole),
            Figure(
                "across_over_inside",
                "Across over inside",
                whole.seconds / near.seconds,
                "ratio",
                Basis.ASSUMED,
                f"{whole.seconds * 1e3:.4g} ms / {near.seconds * 1e3:.4g} ms",
                "published: A100 pairs, TP4, 4.27 against 0.603 ms with NVSwitch (Vidur)",
            ),
        ),
    )


@dataclass(frozen=True, slots=True)
class _Tried:
    layout: Layout
    step_s: float
    communication_s: float
    tokens_per_s: float
    prefill_s: float
    in_fast_domain: bool
    tensor_bytes_per_s: float | None
    shortfall_bytes: int

    @property
    def prefills_per_s(self) -> float:
        """Of all replicas, every stage at work on another prompt."""
        return self.layout.dp * self.layout.pp / self.prefill_s


def _layouts(question: LinksQuestion, setup: Setup) -> tuple[Section, list[str], list[str]]:
    proposal = propose(
        question.topology,
        question.devices_per_model,
        setup.shape.heads,
        setup.shape.kv_heads,
        setup.shape.layers,
    )
    tried = [_try(question, setup, layout) for layout in _same_size(question, setup)]
    proposed = _try(question, setup, proposal.layout)
    if all(t.layout != proposed.layout for t in tried):
        tried.insert(0, proposed)
    doubts = []
    if question.wanted is not None and all(t.layout != question.wanted for t in tried):
        question.wanted.check(setup.shape)
        tried.append(_try(question, setup, question.wanted))
    for t in tried:
        if t.layout == question.wanted and t.shortfall_bytes:
            doubts.append(
                f"{described(t.layout)} does not fit: {quantity(t.shortfall_bytes, 'bytes')} a "
                "device are missing; its times are what they would be"
            )
    tried.sort(key=lambda t: -t.tokens_per_s)
    machines = len(
        {rank.device.split(".")[0] for rank in proposal.placement.ranks if rank.data == 0}
    )
    look = first_link(deployment_of(question.devices_per_model, machines))
    copies = kv_copies(setup.shape, proposal.layout)
    if copies is not None:
        doubts.append(copies)
    best = tried[0]
    said = [f"Proposed for {setup.shape.name}: {described(proposal.layout)}. {proposal.reason}."]
    if best.layout != proposed.layout and best.tokens_per_s > 1.05 * proposed.tokens_per_s:
        said.append(
            f"In decode {described(best.layout)} would give "
            f"{best.tokens_per_s / proposed.tokens_per_s:.2f} times its tokens, by the model, and "
            f"{best.prefills_per_s / proposed.prefills_per_s:.2f} times its prefills of "
            f"{question.context_tokens} tokens. A trial decides."
        )
    share = proposed.communication_s / proposed.step_s if proposed.step_s else 0.0
    shown = [t for t in tried if t.layout in (proposal.layout, question.wanted)]
    crossings = [
        (described(t.layout), _handoffs(question, setup, t.layout), t.step_s) for t in shown
    ]
    said += [
        f"Handoffs of {name}: {sum(h.seconds for h in found) * 1e3:.3g} ms of a decode step of "
        f"{step_s * 1e3:.3g} ms; {carried_by(found)}."
        for name, found, step_s in crossings
    ]
    section = Section(
        f"Laying out {setup.shape.name}",
        text=(
            f"First link to examine: {look.first}{f' and {look.also}' if look.also else ''}: "
            f"{look.why}.",
            f"A decode step of {question.batch} sequences in all at context "
            f"{question.context_tokens}, each replica and stage taking its share.",
        ),
        figures=(
            Figure("step_s", "Decode step as proposed", proposed.step_s, "s", setup.basis,
                   f"compute and memory {(proposed.step_s - proposed.communication_s) * 1e3:.4g} ms"
                   f" + communication {proposed.communication_s * 1e3:.4g} ms", setup.source),
            Figure("communication_share", "Communication share of it", share, "fraction",
                   Basis.ASSUMED,
                   f"{proposed.communication_s * 1e3:.4g} / {proposed.step_s * 1e3:.4g} ms",
                   _ALPHA_BETA),
        ),
        tables=(
            handoff_table("handoffs", crossings),
            _tried_table(tried, proposal.layout, question.wanted),
            *copies_tables([t.layout for t in shown]),
            *_pipeline_tables(setup, [t.layout for t in shown if t.layout.pp > 1]),
            rank_table(proposal.placement),
        ),
    )  # fmt: skip
    return section, said, doubts


def _same_size(question: LinksQuestion, setup: Setup) -> Iterator[Layout]:
    """Layouts over all devices that the model can have, each copy on enough of them."""
    devices = len(question.topology.devices)
    for tp in _divisors(devices):
        if setup.shape.heads % tp:
            continue
        for pp in _divisors(devices // tp):
            if tp * pp < question.devices_per_model or pp > setup.shape.layers or pp > 8:
                continue
            yield Layout(tp=tp, pp=pp, dp=devices // tp // pp)


def _try(question: LinksQuestion, setup: Setup, layout: Layout) -> _Tried:
    placed = place(question.topology, layout)
    laid = replace(setup, layout=layout, topology=question.topology)
    # Every replica takes its share, and every stage works on another part of that at a time.
    each = _share(question, layout)
    work = decode(each, question.context_tokens)
    model = laid.steps()
    seconds = model.seconds(work)
    shared = CollectiveSeconds(laid, question.topology, placed).seconds(each)
    running = each * layout.dp * layout.pp
    return _Tried(
        layout,
        seconds,
        shared if layout.devices > 1 else 0.0,
        min(running, question.batch) / seconds,
        model.prefill_s(question.context_tokens),
        placed.tensor_in_fast_domain,
        placed.tensor_bytes_per_s,
        laid.memory(question.batch, question.context_tokens).shortfall_bytes,
    )


def _share(question: LinksQuestion, layout: Layout) -> int:
    """Sequences that one stage of one replica works on at a time."""
    return -(-question.batch // (layout.dp * layout.pp))


def _handoffs(question: LinksQuestion, setup: Setup, layout: Layout) -> tuple[Handoff, ...]:
    tokens = _share(question, layout)
    return handoffs(question.topology, layout, setup.launch_s, setup, tokens)


def _tried_table(tried: list[_Tried], proposed: Layout, wanted: Layout | None) -> Table:
    return Table(
        "layouts",
        "The same devices, divided differently",
        (
            Column("layout", "Layout"),
            Column("note", ""),
            Column("tensor_rate", "Slowest TP pair", "bytes/s", Basis.ASSUMED),
            Column("fast", "TP inside a fast domain"),
            Column("step", "Step", "s", Basis.ASSUMED),
            Column("communication", "Of it communication", "s", Basis.ASSUMED),
            Column("share", "Share", "fraction", Basis.ASSUMED),
            Column("tokens", "Output tokens/s", "tokens/s", Basis.ASSUMED),
            Column("prefill", "Prefill of the context", "s", Basis.ASSUMED),
            Column("prefills", "Prefills/s", "requests/s", Basis.ASSUMED),
        ),
        tuple(
            {
                "layout": described(t.layout),
                "note": _note(t, proposed, wanted),
                "tensor_rate": t.tensor_bytes_per_s,
                "fast": t.in_fast_domain if t.layout.tp > 1 else None,
                "step": t.step_s,
                "communication": t.communication_s,
                "share": t.communication_s / t.step_s if t.step_s else None,
                "tokens": t.tokens_per_s,
                "prefill": t.prefill_s,
                "prefills": t.prefills_per_s,
            }
            for t in tried
        ),
    )  # fmt: skip


def _pipeline_tables(setup: Setup, layouts: list[Layout]) -> tuple[Table, ...]:
    """What stages wait for each other, by layers; nothing where no layout has stages."""
    if not layouts:
        return ()
    rows: list[dict[str, Cell]] = []
    for layout in layouts:
        stages = stage_layers(setup.shape.layers, layout.pp)
        rows.append(
            {
                "layout": described(layout),
                "layers": ", ".join(map(str, stages)),
                "alone": decode_bubble(layout.pp, 1),
                "filled": steady_bubble([float(layers) for layers in stages]),
                "once": training_bubble(layout.pp, layout.pp),
            }
        )
    return (
        Table(
            "pipeline",
            "Pipeline stages: the share of their time that they idle. A hypothesis: requests "
            "differ in length, idle time measured per stage decides",
            (
                Column("layout", "Layout"),
                Column("layers", "Layers of the stages"),
                Column("alone", "One batch in flight", "fraction", Basis.ASSUMED),
                Column("filled", "A batch for every stage", "fraction", Basis.ASSUMED),
                Column("once", "The same, filled and drained once", "fraction", Basis.ASSUMED),
            ),
            tuple(rows),
        ),
    )


def _note(tried: _Tried, proposed: Layout, wanted: Layout | None) -> str:
    notes = ["proposed"] if tried.layout == proposed else []
    notes += ["asked for"] if tried.layout == wanted else []
    notes += ["does not fit"] if tried.shortfall_bytes else []
    return ", ".join(notes)


def _divisors(number: int) -> list[int]:
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]


def _mib(size: float) -> str:
    return quantity(size, "bytes")
