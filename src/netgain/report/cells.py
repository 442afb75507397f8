"""A table's cells as people read them, the same in every renderer."""

from collections.abc import Mapping

from netgain.report.document import Cell, Column, Table
from netgain.report.units import bounds, quantity


def cell_text(column: Column, row: Mapping[str, Cell]) -> str:
    """What a column shows of a row."""
    if column.bounds is None:
        return quantity(row.get(column.key), column.unit)
    low, high = (row.get(key) for key in column.bounds)
    return bounds(low, high, column.unit)


def is_numeric(table: Table, column: Column) -> bool:
    """Whether all it shows are numbers, which stand to the right and are never broken."""
    shown = (row.get(key) for row in table.rows for key in column.keys)
    return all(value is None or isinstance(value, (int, float)) for value in shown)
