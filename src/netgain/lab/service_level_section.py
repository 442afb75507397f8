"""How far a run met its service level."""

from collections.abc import Mapping
from typing import Final

from netgain.lab.metrics.estimate import Estimate
from netgain.lab.metrics.goodput import Attainment, Goodput, Met
from netgain.lab.run_header import RunHeader
from netgain.report.document import Basis, Cell, Column, Section, Table
from netgain.report.units import quantity

_STEP: Final = "step"


def service_level(goodput: Goodput, header: RunHeader) -> Section:
    """Every limit, all together, and what else the SLO asks that this run does not answer."""
    return Section(
        "Service level",
        text=(
            f"{goodput.good} of {goodput.requests} requests met every limit that applies to them. "
            "Errors, time-outs and requests cut off are misses; a one-token answer has no TPOT and "
            "no ITL.",
            *(text for a in goodput.limits if (text := _enough(a, goodput.demanded))),
            *_also_asked(goodput, header),
        ),
        tables=(_limits_table(goodput),),
    )


def _enough(found: Attainment, demanded: float) -> str:
    """Where faster earns nothing: enough requests are at the limit's floor already."""
    floor_s, share = found.limit.good_enough_s, found.good_enough
    if floor_s is None or share is None or share.low is None:
        return ""
    if share.low < (found.limit.share or demanded):
        return ""
    return (
        f"{found.limit.objective.value} is good enough: {quantity(share.value, 'fraction')} of "
        f"requests are at or below {quantity(floor_s, 's')}; faster earns nothing."
    )


def _also_asked(goodput: Goodput, header: RunHeader) -> list[str]:
    level = goodput.level
    said = []
    if level.concurrency is not None and header.concurrency != level.concurrency:
        said.append(
            f"Whether it holds for {level.concurrency} at once: not measured by this run; load it "
            f"with --concurrency {level.concurrency}."
        )
    if level.peak_factor is not None and not header.arrivals.startswith(_STEP):
        said.append(
            f"Whether it holds at a peak of {level.peak_factor:g} times the base load: not "
            f"measured by this run; load it with --arrivals step:{level.peak_factor:g}."
        )
    return said


def _limits_table(goodput: Goodput) -> Table:
    rows = [_row(found) for found in goodput.limits]
    rows.append(
        {
            "limit": "all together",
            "applies": goodput.requests,
            **_share("share", goodput.attainment, goodput.requests),
            "demanded": goodput.demanded,
            "met": goodput.met.value,
        }
    )
    return Table("attainment", "Attainment", _columns(), tuple(rows))


def _row(found: Attainment) -> dict[str, Cell]:
    met: Met | None = found.met
    row: dict[str, Cell] = {
        "limit": found.limit.objective.value,
        "at_most_s": found.limit.limit_s,
        "applies": found.applies,
        **_share("share", found.share, found.applies),
        "demanded": found.limit.share,
        "met": None if met is None else met.value,
        "good_enough_s": found.limit.good_enough_s,
    }
    if found.good_enough is not None:
        row |= _share("good_enough", found.good_enough, found.applies)
    return row


def _share(name: str, found: Estimate, of: int) -> Mapping[str, Cell]:
    if not of:
        return {}
    return {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}


def _columns() -> tuple[Column, ...]:
    return (
        Column("limit", "limit on"),
        Column("at_most_s", "at most", "s"),
        Column("applies", "applies to"),
        Column("share", "met it", "fraction", Basis.MEASURED),
        Column(
            "share_interval", "95 %", "fraction", Basis.MEASURED, bounds=("share_low", "share_high")
        ),
        Column("demanded", "demanded", "fraction"),
        Column("met", "verdict"),
        Column("good_enough_s", "good enough", "s"),
        Column("good_enough", "are so", "fraction", Basis.MEASURED),
    )
