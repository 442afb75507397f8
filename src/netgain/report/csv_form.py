"""A table as CSV: for spreadsheets and data frames, unscaled."""

import csv
import io
from pathlib import Path

from netgain.report.document import Cell, Table
from netgain.report.files import write_file
from netgain.report.json_form import plain


def table_csv(table: Table) -> str:
    """A line of column keys, then the rows; what is not there or not finite is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    keys = [key for column in table.columns for key in column.keys]
    writer.writerow(keys)
    for row in table.rows:
        writer.writerow([_cell(row.get(key)) for key in keys])
    return text.getvalue()


def write_csv(table: Table, path: Path) -> None:
    """Raises `ReportError` where it cannot be written."""
    write_file(path, table_csv(table))


def _cell(value: Cell) -> str:
    value = plain(value)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
