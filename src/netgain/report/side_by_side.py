"""A table on its side: its rows stand beside each other, one line a quantity with one unit."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from netgain.report.document import Cell, Column, Sign, Table
from netgain.report.units import NOTHING, Scale, number, quantity, shared_scale


@dataclass(frozen=True, slots=True)
class Line:
    """One quantity: `cells` has a text for every row of the table, signs included."""

    group: str
    column: Column
    label: str
    cells: tuple[str, ...]
    numeric: bool


@dataclass(frozen=True, slots=True)
class SideBySide:
    """`heads` names the rows of the table; `signs` are those that stand somewhere in `lines`."""

    corner: str
    heads: tuple[str, ...]
    lines: tuple[Line, ...]
    signs: tuple[Sign, ...]


def side_by_side(table: Table) -> SideBySide:
    """The first column becomes the heads, every other a line.

    A column that no row has a value for is left out.
    """
    first, *others = table.columns
    scales = _scales(table)
    lines = tuple(
        _line(table, column, scales[column.group, column.unit])
        for column in others
        if any(row.get(column.key) is not None for row in table.rows)
    )
    words = {
        row.get(line.column.sure)
        for line in lines
        for row in table.rows
        if row.get(line.column.key) is not None
    }
    return SideBySide(
        first.label,
        tuple(quantity(row.get(first.key), first.unit) for row in table.rows),
        lines,
        tuple(sign for sign in table.signs if sign.word in words),
    )


def _scales(table: Table) -> dict[tuple[str, str], Scale]:
    """One scale for all quantities of a group that have the same unit."""
    found: dict[tuple[str, str], list[float]] = {}
    for column in table.columns:
        numbers = found.setdefault((column.group, column.unit), [])
        numbers += _numbers(row.get(column.key) for row in table.rows)
    return {key: shared_scale(key[1], numbers) for key, numbers in found.items()}


def _numbers(values: Iterable[Cell]) -> list[float]:
    return [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]


def _line(table: Table, column: Column, scale: Scale) -> Line:
    values = [row.get(column.key) for row in table.rows]
    numbers = _numbers(values)
    if not numbers or column.unit.startswith("$"):
        texts = [quantity(value, column.unit) for value in values]
        unit = ""
    else:
        texts = [_scaled(value, scale.factor) for value in values]
        unit = "" if scale.unit == "ratio" else scale.unit
    cells = tuple(
        text + _sign(table, row, column) if text != NOTHING else text
        for text, row in zip(texts, table.rows, strict=True)
    )
    label = f"{column.label}, {unit}" if unit else column.label
    return Line(column.group, column, label, cells, bool(numbers))


def _scaled(value: Cell, factor: float) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return quantity(value)
    return number(value if factor == 1.0 else value / factor)


def _sign(table: Table, row: Mapping[str, Cell], column: Column) -> str:
    word = row.get(column.sure)
    return next((f" {sign.sign}" for sign in table.signs if sign.word == word), "")
