"""What the ranks of a layout exchange in a step: rows of their own, and what overlap could hide."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from netgain.cost.layout import ONE_DEVICE
from netgain.cost.placement import described
from netgain.cost.planner.setup import CollectivePart, CollectiveSeconds, Setup
from netgain.cost.roofline import StepEstimate
from netgain.cost.step_work import StepWork
from netgain.hardware.topology import Topology
from netgain.report.document import Basis, Cell, Column, Figure, Section, Table

_ALPHA_BETA: Final = "alpha-beta forms of nccl-tests on the topology's edges"


@dataclass(frozen=True, slots=True)
class TimedStep:
    """A step of a report: its name, its work, its time by the layout's model."""

    label: str
    work: StepWork
    estimate: StepEstimate


def collectives_section(
    setup: Setup, collectives: CollectiveSeconds, steps: Sequence[TimedStep]
) -> Section:
    """Every exchange of each step, its share, and the first step against one device's over N.

    `steps` has one or more.
    """
    layout, first = setup.layout, steps[0]
    over = layout.tp
    alone = replace(setup, layout=ONE_DEVICE, topology=None, measured=None).steps()
    single_s = alone.seconds(first.work)
    taken = first.estimate
    shared = taken.communication_s
    name = setup.topology.name if setup.topology else ""
    figures = [
        Figure("collectives_s", f"Collectives of a step: {first.label}", shared, "s", Basis.ASSUMED,
               " + ".join(f"{part.count} x {part.each_s * 1e6:.4g} us ({part.name})"
                          for part in _exchanges(collectives, first.work)),
               f"{_ALPHA_BETA}; {name}"),
        Figure("collectives_share", "Share of that step", shared / taken.seconds, "fraction",
               Basis.ASSUMED, f"{shared * 1e3:.4g} / {taken.seconds * 1e3:.4g} ms", _ALPHA_BETA),
        Figure("one_device_over_n_s", f"One device's step over {over} tensor ranks",
               single_s / over, "s",
               setup.basis, f"{single_s * 1e3:.4g} ms / {over}",
               "what dividing would give if nothing crossed and everything divided"),
        Figure("step_over_ideal", "This step over that", taken.seconds * over / single_s, "ratio",
               setup.basis, f"{taken.seconds * 1e3:.4g} ms / ({single_s * 1e3:.4g} ms / {over})",
               "kernels are launched as often on every rank; collectives come on top"),
        Figure("step_all_hidden_s", "If everything were hidden",
               max(taken.seconds - shared, shared), "s", setup.basis,
               f"max({(taken.seconds - shared) * 1e3:.4g}, {shared * 1e3:.4g}) ms",
               "overlap hides at most the shorter of computation and collectives"),
    ]  # fmt: skip
    rows: list[dict[str, Cell]] = []
    for step in steps:
        rows += [
            {
                "step": step.label,
                "exchange": part.name,
                "times": part.count,
                "size": part.size_bytes,
                "each": part.each_s,
                "seconds": part.seconds,
                "share": part.seconds / step.estimate.seconds,
                "link": part.link,
            }
            for part in _exchanges(collectives, step.work)
        ]
    text = [
        f"{described(layout)} on {name}. Nothing is overlapped: a step is computation plus these. "
        "Engines that overlap (two half-batches, a collective beside the next product) hide some "
        "of it in prefill and large batches, and little in small decode steps.",
    ]
    if layout.pp > 1:
        text.append(
            f"A step is one pass through {layout.pp} stages in turn: other batches fill the other "
            f"stages, up to {layout.pp} times the tokens/s."
        )
    if layout.dp > 1:
        text.append(f"Loads and rates are those of one of {layout.dp} data-parallel copies.")
    if layout.ep > 1 and layout.ep <= layout.tp:
        text.append(
            "Expert ranks inside a tensor group hold all its tokens: the layer's all-reduce adds "
            "their experts up, and no all-to-all is needed."
        )
    return Section(
        "What crosses between devices",
        text=tuple(text),
        figures=tuple(figures),
        tables=(
            Table(
                "collectives",
                "Exchanges of a step, one after another",
                (
                    Column("step", "Step"),
                    Column("exchange", "Exchange"),
                    Column("times", "Times", "", Basis.EXACT),
                    Column("size", "Bytes each", "bytes", Basis.EXACT),
                    Column("each", "Each", "s", Basis.ASSUMED),
                    Column("seconds", "All", "s", Basis.ASSUMED),
                    Column("share", "Share", "fraction", Basis.ASSUMED),
                    Column("link", "Slowest edge"),
                ),
                tuple(rows),
            ),
        ),
    )


def unchecked_links(topology: Topology) -> list[str]:
    """Links between devices whose reached share of the peak nobody measured."""
    first = topology.devices[0]
    edges = (edge for other in topology.devices[1:] for edge in topology.path(first, other).edges)
    names = sorted({edge.wire.name for edge in edges if not edge.wire.checked})
    if not names:
        return []
    return [f"Nobody measured what {', '.join(names)} reaches of its peak: measure it"]


def _exchanges(collectives: CollectiveSeconds, work: StepWork) -> tuple[CollectivePart, ...]:
    return collectives.exchanges(work.tokens, work.logit_rows)
