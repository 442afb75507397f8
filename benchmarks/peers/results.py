"""From raw rounds to a table: medians, best peer, ratio. Pure."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

NETGAIN: Final = "netgain"
"""The column that all others are compared with."""


class Unit(StrEnum):
    """What a row counts; only speeds are better when larger."""

    SPEED = "tok/s"
    SECONDS = "s"
    MEMORY = "MB"


@dataclass(frozen=True, slots=True)
class Failure:
    """Who could not do what, and why."""

    peer: str
    doing: str
    reason: str


@dataclass(slots=True)
class Results:
    """Raw figures by row and column, in the order in which they came."""

    units: dict[str, Unit] = field(default_factory=dict)
    rounds: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    failed: list[Failure] = field(default_factory=list)
    failed_cells: set[tuple[str, str]] = field(default_factory=set)

    def add(self, row: str, column: str, figure: float, unit: Unit = Unit.SPEED) -> None:
        """One figure of one round."""
        self.units.setdefault(row, unit)
        self.rounds.setdefault(row, {}).setdefault(column, []).append(figure)

    def fail(
        self,
        column: str,
        failure: Failure,
        rows: Sequence[str],
        unit: Unit = Unit.SPEED,
    ) -> None:
        """Marks cells as failed; the same failure is listed once."""
        if failure not in self.failed:
            self.failed.append(failure)
        for row in rows:
            self.units.setdefault(row, unit)
            self.rounds.setdefault(row, {})
            self.failed_cells.add((row, column))

    def summary(self, row: str) -> "RowSummary":
        """Medians of one row."""
        medians = {
            column: statistics.median(figures) for column, figures in self.rounds[row].items()
        }
        return RowSummary.of(row, self.units[row], medians)

    def table(self, columns: Sequence[str]) -> list[dict[str, object]]:
        """One mapping a row, a cell for every column, `failed` where there is no figure."""
        lines: list[dict[str, object]] = []
        for row in self.rounds:
            summary = self.summary(row)
            cells: dict[str, object] = {column: self._cell(summary, column) for column in columns}
            ratio = "" if summary.ratio is None else f"{summary.ratio:.2f}"
            lines.append(
                {"row": row, "unit": str(summary.unit)}
                | cells
                | {"best peer": summary.best_peer or "", "ratio": ratio}
            )
        return lines

    def json_rows(self) -> list[dict[str, object]]:
        """Every row with medians, ratio and all raw rounds."""
        lines: list[dict[str, object]] = []
        for row, rounds in self.rounds.items():
            summary = self.summary(row)
            lines.append(
                {
                    "row": row,
                    "unit": str(summary.unit),
                    "medians": dict(summary.medians),
                    "best_peer": summary.best_peer,
                    "ratio": summary.ratio,
                    "rounds": {column: list(figures) for column, figures in rounds.items()},
                    "failed": sorted(column for name, column in self.failed_cells if name == row),
                }
            )
        return lines

    def _cell(self, summary: "RowSummary", column: str) -> str:
        if column in summary.medians:
            figure = summary.medians[column]
            return f"{figure:.0f}" if figure >= 100 else f"{figure:.3g}"
        return "failed" if (summary.row, column) in self.failed_cells else ""


@dataclass(frozen=True, slots=True)
class RowSummary:
    """Medians and how netgain stands: a ratio above 1 is better than the best peer."""

    row: str
    unit: Unit
    medians: Mapping[str, float]
    best_peer: str | None
    ratio: float | None

    @classmethod
    def of(cls, row: str, unit: Unit, medians: Mapping[str, float]) -> "RowSummary":
        """Best peer and ratio; None where netgain or every peer is missing."""
        peers = {column: figure for column, figure in medians.items() if column != NETGAIN}
        if not peers:
            return cls(row, unit, medians, None, None)
        faster = unit is Unit.SPEED
        best = max(peers, key=lambda column: peers[column] if faster else -peers[column])
        ours = medians.get(NETGAIN)
        if not ours:
            return cls(row, unit, medians, best, None)
        ratio = ours / peers[best] if faster else peers[best] / ours
        return cls(row, unit, medians, best, ratio)
