"""What a layout's handoffs cost: who talks, how many bytes, over which link, for how long."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from netgain.cost.collectives import Operation
from netgain.cost.communication import collective, expert_exchange, send
from netgain.cost.expert_traffic import RoutedToken, contiguous_placement, crossing_copies
from netgain.cost.layout import Layout
from netgain.cost.model_shape import Experts
from netgain.cost.placement import Placement, described, place
from netgain.cost.planner.setup import CollectiveSeconds, Setup
from netgain.hardware.topology import Topology
from netgain.report.document import Basis, Cell, Column, Form, Section, Table

_EXAMPLE_BYTES: Final = 64.0 * 2**20
_VALUE_BYTES: Final = 2.0
"""Activations and partial sums, in 16 bits."""
_KINDS: Final = {
    "tensor": "all-reduce of partial sums (TP)",
    "expert": "tokens to experts and back (EP)",
    "stage": "activations to the next stage (PP)",
}


@dataclass(frozen=True, slots=True)
class Handoff:
    """One kind of crossing: `size_bytes` each, `times` a step (None: no model is known)."""

    kind: str
    ranks: int
    groups: int
    link: str
    peak_bytes_per_s: float
    size_bytes: float
    times: int | None
    seconds: float
    """Of all of them in a step, or of one of `size_bytes` where no model is known."""


def handoffs(
    topology: Topology, layout: Layout, launch_s: float, setup: Setup | None, tokens: int
) -> tuple[Handoff, ...]:
    """What the ranks of a layout exchange in a step of `tokens` a replica, costliest first.

    Replicas exchange nothing. Without a model, one exchange of 64 MiB each. Raises
    `ConfigurationError` for a layout that takes more devices than there are.
    """
    placed = place(topology, layout)
    if setup is None:
        found = list(_examples(topology, placed, launch_s))
    else:
        laid = replace(setup, layout=layout, topology=topology)
        parts = CollectiveSeconds(laid, topology, placed).parts(tokens)
        found = [
            Handoff(
                _KINDS[kind], *_crossing(topology, placed, kind),
                *_sizes(topology, laid, placed, kind, tokens), seconds,
            )
            for kind, seconds in parts.items() if seconds
        ]  # fmt: skip
    return tuple(sorted(found, key=lambda handoff: -handoff.seconds))


def carried_by(found: Sequence[Handoff]) -> str:
    """`activations to the next stage (PP): PCIe 4 x16`, one for each kind; else that none is."""
    if not found:
        return "replicas exchange nothing"
    return ", ".join(f"{handoff.kind} over {handoff.link}" for handoff in found)


def layout_section(topology: Topology, layout: Layout, launch_s: float) -> Section:
    """A layout without a model: where its ranks go, and what their links take for 64 MiB."""
    placed = place(topology, layout)
    found = handoffs(topology, layout, launch_s, None, 0)
    return Section(
        f"The layout asked for: {described(layout)}",
        text=(
            "Without a model: one exchange of 64 MiB each. --model says how many bytes a step "
            "hands over, and what that is of the step.",
        ),
        tables=(
            handoff_table("handoffs", ((described(layout), found, None),)),
            *copies_tables([layout]),
            rank_table(placed),
        ),
    )


def handoff_table(
    name: str, layouts: Sequence[tuple[str, Sequence[Handoff], float | None]]
) -> Table:
    """Of several layouts: name, handoffs, and seconds of a step where they are known."""
    return Table(
        name,
        "What the handoffs cost, and which link carries them",
        (
            Column("layout", "Layout"),
            Column("handoff", "Handoff"),
            Column("link", "Slowest link"),
            Column("peak", "One way", "bytes/s", Basis.ASSUMED),
            Column("ranks", "Ranks", "", Basis.EXACT),
            Column("groups", "Groups", "", Basis.EXACT),
            Column("size", "Bytes each", "bytes", Basis.EXACT),
            Column("times", "Times", "", Basis.EXACT),
            Column("seconds", "Together", "s", Basis.ASSUMED),
            Column("share", "Of a step", "fraction", Basis.ASSUMED),
        ),
        tuple(row for layout in layouts for row in _rows(*layout)),
    )


def copies_tables(layouts: Sequence[Layout]) -> tuple[Table, ...]:
    """Which copies of a token cross between expert ranks, on the smallest example; with EP only."""
    if all(layout.ep == 1 for layout in layouts):
        return ()
    tokens = (RoutedToken("A", 0, (0, 2)), RoutedToken("B", 0, (1, 0)), RoutedToken("C", 1, (3, 1)))
    rank_of = contiguous_placement(experts=4, ranks=2)
    crossing = {copy.token: copy for copy in crossing_copies(tokens, rank_of)}

    def told(token: RoutedToken) -> str:
        copy = crossing.get(token.name)
        return f"on rank {token.home_rank}, experts {' and '.join(map(str, token.experts))}: " + (
            f"one copy crosses to rank {copy.target}" if copy else "nothing crosses"
        )

    return (
        Table(
            "copies",
            "Dispatch of three tokens: experts 0 and 1 on rank 0, 2 and 3 on rank 1",
            (Column("token", "Token"), Column("copies", "What crosses")),
            tuple({"token": token.name, "copies": told(token)} for token in tokens),
            Form.NOTES,
        ),
    )


def rank_table(placement: Placement) -> Table:
    """Every rank's device."""
    return Table(
        "ranks",
        f"Ranks on devices: {described(placement.layout)}",
        (
            Column("device", "Device"),
            Column("data", "Replica", "", Basis.EXACT),
            Column("stage", "Stage", "", Basis.EXACT),
            Column("tensor", "TP rank", "", Basis.EXACT),
            Column("expert", "EP rank", "", Basis.EXACT),
        ),
        tuple(
            {
                "device": rank.device,
                "data": rank.data,
                "stage": rank.stage,
                "tensor": rank.tensor,
                "expert": rank.expert,
            }
            for rank in placement.ranks
        ),
    )


def _rows(layout: str, found: Sequence[Handoff], step_s: float | None) -> Iterator[dict[str, Cell]]:
    if not found:
        yield {"layout": layout, "handoff": "none: replicas exchange nothing"}
    for handoff in found:
        yield {
            "layout": layout,
            "handoff": handoff.kind,
            "link": handoff.link,
            "peak": handoff.peak_bytes_per_s,
            "ranks": handoff.ranks,
            "groups": handoff.groups,
            "size": handoff.size_bytes,
            "times": handoff.times,
            "seconds": handoff.seconds,
            "share": handoff.seconds / step_s if step_s else None,
        }


def _examples(topology: Topology, placed: Placement, launch_s: float) -> Iterator[Handoff]:
    layout, size = placed.layout, _EXAMPLE_BYTES
    if layout.tp > 1:
        cost = collective(topology, placed.tensor_groups()[0], Operation.ALL_REDUCE, size, launch_s)
        yield _example("tensor", topology, placed, cost.seconds)
    if layout.ep > 1:
        cost = collective(topology, placed.expert_groups()[0], Operation.ALL_TO_ALL, size, launch_s)
        yield _example("expert", topology, placed, cost.seconds)
    if layout.pp > 1:
        cost = send(topology, *placed.boundaries()[0], size, launch_s)
        yield _example("stage", topology, placed, cost.seconds)


def _example(kind: str, topology: Topology, placed: Placement, seconds: float) -> Handoff:
    crossing = _crossing(topology, placed, kind)
    return Handoff(_KINDS[kind], *crossing, _EXAMPLE_BYTES, None, seconds)


def _crossing(topology: Topology, placed: Placement, kind: str) -> tuple[int, int, str, float]:
    """Ranks that talk, how many such groups, the slowest link inside one, its peak one way."""
    groups = {
        "tensor": placed.tensor_groups,
        "expert": placed.expert_groups,
        "stage": placed.boundaries,
    }[kind]()
    slowest = min(
        (
            topology.path(source, target).slowest
            for group in groups
            for source in group
            for target in group
            if source != target
        ),
        key=lambda edge: edge.wire.bytes_per_s,
    )
    return len(groups[0]), len(groups), slowest.wire.name, slowest.wire.bytes_per_s


def _sizes(
    topology: Topology, laid: Setup, placed: Placement, kind: str, tokens: int
) -> tuple[float, int]:
    """Bytes a rank sends in one exchange, and how many of them a step has."""
    shape, layout = laid.shape, laid.layout
    if kind == "tensor":
        return tokens * shape.hidden * _VALUE_BYTES, 2 * shape.layers
    if kind == "stage":
        return tokens * shape.hidden * _VALUE_BYTES / layout.tp, layout.pp - 1
    experts = [(group.count, group.mlp) for group in shape.groups if isinstance(group.mlp, Experts)]
    exchange = expert_exchange(
        topology,
        placed.expert_groups()[0],
        max(1, tokens // layout.tp),
        experts[0][1].top_k,
        shape.hidden,
    )
    sent = exchange.dispatch_bytes + exchange.combine_bytes
    return sent, sum(count for count, _ in experts)
