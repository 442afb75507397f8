"""A tool's numbers beside netgain's for the same traffic. Pure."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from netgain.report.document import Basis, Column, Table

WITHIN: Final = 0.02
"""The difference that is allowed, relative to the tool's number."""


@dataclass(frozen=True, slots=True)
class Row:
    """One metric by both; medians of the rounds."""

    metric: str
    theirs: float
    ours: float

    @property
    def difference(self) -> float:
        """Relative to theirs; 0 where both are 0."""
        if self.theirs == self.ours:
            return 0.0
        return (self.ours - self.theirs) / abs(self.theirs) if self.theirs else math.inf

    @property
    def agrees(self) -> bool:
        """Whether it is allowed."""
        return abs(self.difference) <= WITHIN


@dataclass(frozen=True, slots=True)
class Comparison:
    """`rows` for every metric that both have, `left_out` for those that have another meaning."""

    tool: str
    version: str
    rows: tuple[Row, ...]
    left_out: Mapping[str, str]

    @property
    def worst(self) -> Row:
        """The largest difference."""
        return max(self.rows, key=lambda row: abs(row.difference))

    @property
    def agrees(self) -> bool:
        """Whether all are within what is allowed."""
        return all(row.agrees for row in self.rows)

    def table(self) -> Table:
        """For a report."""
        return Table(
            f"{self.tool}_against_netgain",
            f"{self.tool} {self.version} and netgain --as {self.tool}",
            (
                Column("metric", "Metric"),
                Column("theirs", self.tool, basis=Basis.MEASURED),
                Column("ours", "netgain", basis=Basis.MEASURED),
                Column("difference", "difference", "fraction", Basis.MEASURED),
                Column("agrees", f"within {WITHIN:.0%}"),
            ),
            tuple(
                {
                    "metric": row.metric,
                    "theirs": row.theirs,
                    "ours": row.ours,
                    "difference": row.difference,
                    "agrees": "yes" if row.agrees else "NO",
                }
                for row in self.rows
            ),
        )


def compare(
    tool: str,
    version: str,
    theirs: Sequence[Mapping[str, float]],
    ours: Sequence[Mapping[str, float | None]],
    left_out: Mapping[str, str],
) -> Comparison:
    """Medians over the rounds of every metric that all rounds of both have."""
    own = [{k: v for k, v in round_.items() if v is not None} for round_ in ours]
    common = [key for key in own[0] if all(key in round_ for round_ in (*own, *theirs))]
    rows = tuple(
        Row(
            key,
            statistics.median(round_[key] for round_ in theirs),
            statistics.median(round_[key] for round_ in own),
        )
        for key in common
        if key not in left_out
    )
    return Comparison(tool, version, rows, {k: v for k, v in left_out.items() if k in common})
