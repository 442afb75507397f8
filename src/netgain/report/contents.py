"""A report's parts by name, after checking that they agree with one another."""

from collections.abc import Iterable
from typing import Protocol, TypeVar

from netgain.report.document import Chart, Figure, Mark, Report, Table
from netgain.report.errors import ReportError


class _Named(Protocol):
    @property
    def name(self) -> str: ...


_Part = TypeVar("_Part", bound=_Named)


def figures_by_name(report: Report) -> dict[str, Figure]:
    """Every figure. Raises `ReportError` for a name that comes twice."""
    return _by_name("figure", (f for section in report.sections for f in section.figures))


def tables_by_name(report: Report) -> dict[str, Table]:
    """Every table. Raises `ReportError` for a name that comes twice."""
    return _by_name("table", (t for section in report.sections for t in section.tables))


def charts_by_name(report: Report) -> dict[str, Chart]:
    """Every chart. Raises `ReportError` for a name that comes twice or series of uneven length."""
    charts = _by_name("chart", (c for section in report.sections for c in section.charts))
    for chart in charts.values():
        _check_lengths(chart)
    return charts


def check(report: Report) -> None:
    """Raises `ReportError` where the report contradicts itself."""
    figures_by_name(report)
    tables_by_name(report)
    charts_by_name(report)


def _by_name(kind: str, parts: Iterable[_Part]) -> dict[str, _Part]:
    found: dict[str, _Part] = {}
    for part in parts:
        if part.name in found:
            raise ReportError(f"two {kind}s of this report are named {part.name!r}; rename one")
        found[part.name] = part
    return found


def _check_lengths(chart: Chart) -> None:
    for series in chart.series:
        sizes = {"x": len(series.x), "y": len(series.y)}
        if series.mark is Mark.SPANS:
            sizes["x_end"] = len(series.x_end)
        if len(series.texts):
            sizes["texts"] = len(series.texts)
        if len(set(sizes.values())) > 1:
            told = ", ".join(f"{size} {name}" for name, size in sizes.items())
            raise ReportError(
                f"chart {chart.name!r}, series {series.name!r}: {told}; they must be as many"
            )
