"""A report as data. Commands fill it in, renderers show it; neither knows the other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

Cell = str | int | float | bool | None


class Basis(StrEnum):
    """What a number is."""

    MEASURED = "measured"
    """Observed on this system, in this run or a recorded one."""
    CALIBRATED = "calibrated"
    """Computed by a model whose coefficients were measured on this system."""
    ASSUMED = "assumed"
    """Computed from data sheets, published fractions or a stated default."""
    EXACT = "exact"
    """Counted: follows from the model's own config or from the question, nothing assumed."""

    @property
    def meaning(self) -> str:
        """The same in words, for a legend."""
        return _MEANINGS[self]


_MEANINGS: Final = {
    Basis.MEASURED: "observed on this system, in this run or a recorded one",
    Basis.CALIBRATED: "computed by a model whose coefficients were measured on this system",
    Basis.ASSUMED: "computed from data sheets, published fractions or a stated default",
    Basis.EXACT: "counted, nothing assumed",
}


@dataclass(frozen=True, slots=True)
class Interval:
    """Confidence bounds at 95 %, in the number's own unit; None where the sample gives none."""

    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Figure:
    """One number, what it is, and how it came about.

    `name` is its key in JSON (snake case, unit included: `kv_bytes_per_token`), `label` what
    people read. `unit` is one the renderers scale ("bytes", "s", "tokens", "tokens/s",
    "requests/s", "FLOP", "FLOP/s", "bytes/s", "FLOP/byte", "W", "$", "ratio", "fraction" (shown as
    per cent), "") or other text.
    `arithmetic` is the formula with its numbers filled in, for --explain; `source` where the
    formula or the fact comes from. `interval`: how well a sampled number is known.
    """

    name: str
    label: str
    value: Cell
    unit: str
    basis: Basis
    arithmetic: str = ""
    source: str = ""
    interval: Interval | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """A table's column: its key in every row, its heading, its unit, what its numbers are.

    `group` is the heading above it where the table stands on its side. `sure` is the key of a cell
    that says in a word how sure this column's cell of the same row is (see `Table.signs`).

    With `bounds`, the keys of two numbers in every row, it shows the range between them instead.
    """

    key: str
    label: str
    unit: str = ""
    basis: Basis | None = None
    group: str = ""
    sure: str = ""
    bounds: tuple[str, str] | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """What of a row it shows."""
        return self.bounds or (self.key,)


class Form(StrEnum):
    """How people are shown a table; programs get the same rows from all of them."""

    ROWS = "rows"
    """One line a row."""
    SIDE_BY_SIDE = "side by side"
    """Few rows, many columns: rows stand beside each other, one line a column with its unit."""
    NOTES = "notes"
    """A list, the first column in front: long texts. On a terminal only with --explain."""


@dataclass(frozen=True, slots=True)
class Sign:
    """A short sign behind a number for a word in its row, and what it means."""

    word: str
    sign: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Table:
    """Rows are mappings from column keys; a missing key or None is shown as a dash."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Mapping[str, Cell], ...]
    form: Form = Form.ROWS
    signs: tuple[Sign, ...] = ()


class Mark(StrEnum):
    """How a series is drawn."""

    LINE = "line"
    POINTS = "points"
    STEPS = "steps"
    BARS = "bars"
    SPANS = "spans"
    """Horizontal bars from `x[i]` to `x_end[i]` at row `y[i]`: a timeline."""


@dataclass(frozen=True, slots=True)
class Axis:
    """`unit` scales tick labels like a figure's."""

    label: str
    unit: str = ""
    log: bool = False


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one name; `texts` are shown on hovering, one per point."""

    name: str
    x: Sequence[float | str]
    y: Sequence[float | str]
    mark: Mark = Mark.LINE
    x_end: Sequence[float] = ()
    texts: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Chart:
    """One pair of axes with its series; `name` is its key and its element's id on a page."""

    name: str
    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what stands under it, in this order: text, figures, tables, charts."""

    heading: str
    text: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    charts: tuple[Chart, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """Everything one command has to say.

    `verdict` is the answer in a sentence or two; `warnings` what makes it doubtful; `context` what
    it was asked (command, model, machine, versions), as pairs.
    """

    title: str
    sections: tuple[Section, ...]
    verdict: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    context: Mapping[str, Cell] = field(default_factory=dict)

    def figure(self, name: str) -> Figure:
        """The figure of this name. Raises `KeyError`."""
        for section in self.sections:
            for figure in section.figures:
                if figure.name == name:
                    return figure
        raise KeyError(name)
