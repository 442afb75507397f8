"""A report as plain JSON: what a program reads, unscaled."""

import json
import math
from collections.abc import Mapping, Sequence

from netgain.report import contents
from netgain.report.document import Axis, Cell, Chart, Column, Figure, Report, Series, Table

Json = str | int | float | bool | None | Mapping[str, "Json"] | Sequence["Json"]


def report_object(report: Report) -> dict[str, Json]:
    """`title`, `verdict`, `warnings`, `context`, and by name `figures`, `tables`, `charts`.

    Whole numbers stay exact; NaN and infinities, which JSON has not, become null. Raises
    `ReportError` for a name that comes twice and for series of uneven length.
    """
    return {
        "title": report.title,
        "verdict": list(report.verdict),
        "warnings": list(report.warnings),
        "context": {key: plain(value) for key, value in report.context.items()},
        "figures": {n: _figure(f) for n, f in contents.figures_by_name(report).items()},
        "tables": {n: _table(t) for n, t in contents.tables_by_name(report).items()},
        "charts": {n: _chart(c) for n, c in contents.charts_by_name(report).items()},
    }


def json_text(report: Report) -> str:
    """The same as indented text, ASCII only, with a last line feed."""
    return json.dumps(report_object(report), indent=2, allow_nan=False) + "\n"


def plain(value: Cell) -> Cell:
    """A cell as JSON has it: what is not finite becomes None, a library's float Python's own."""
    if value is None or isinstance(value, (str, int)):
        return value
    return float(value) if math.isfinite(value) else None


def _figure(figure: Figure) -> dict[str, Json]:
    value: dict[str, Json] = {
        "value": plain(figure.value),
        "unit": figure.unit,
        "basis": figure.basis.value,
        "label": figure.label,
        "arithmetic": figure.arithmetic,
        "source": figure.source,
    }
    if figure.interval is not None:
        value |= {"low": plain(figure.interval.low), "high": plain(figure.interval.high)}
    return value


def _table(table: Table) -> dict[str, Json]:
    return {
        "title": table.title,
        "columns": [_column(column) for column in table.columns],
        "rows": [_row(table, row) for row in table.rows],
    }


def _row(table: Table, row: Mapping[str, Cell]) -> dict[str, Json]:
    keys = [key for column in table.columns for key in column.keys]
    sure = [column.sure for column in table.columns if column.sure in row]
    return {key: plain(row.get(key)) for key in (*keys, *sure)}


def _column(column: Column) -> dict[str, Json]:
    basis = None if column.basis is None else column.basis.value
    value: dict[str, Json] = {
        "key": column.key,
        "label": column.label,
        "unit": column.unit,
        "basis": basis,
    }
    if column.bounds is not None:
        value["bounds"] = list(column.bounds)
    return value


def _chart(chart: Chart) -> dict[str, Json]:
    return {
        "title": chart.title,
        "x": _axis(chart.x),
        "y": _axis(chart.y),
        "series": [_series(series) for series in chart.series],
    }


def _axis(axis: Axis) -> dict[str, Json]:
    return {"label": axis.label, "unit": axis.unit, "log": axis.log}


def _series(series: Series) -> dict[str, Json]:
    value: dict[str, Json] = {
        "name": series.name,
        "mark": series.mark.value,
        "x": [plain(x) for x in series.x],
        "y": [plain(y) for y in series.y],
    }
    if len(series.x_end):
        value["x_end"] = [plain(x) for x in series.x_end]
    if len(series.texts):
        value["texts"] = list(series.texts)
    return value
