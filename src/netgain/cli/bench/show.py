"""The one place that renders what a bench command found."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from netgain.lab.metrics.run_metrics import MeasuredRun
    from netgain.report.document import Report


def show(report: "Report", *, as_json: bool, html: Path | None, plot: bool) -> None:
    """Prints a report as text or JSON, then writes it as a page where asked to."""
    if as_json:
        from netgain.report.json_form import json_text

        typer.echo(json_text(report), nl=False)
    else:
        from netgain.report.terminal import print_report

        print_report(report, plot=plot)
    if html is not None:
        from netgain.report.page import write_page

        write_page(report, html)
        if not as_json:
            typer.echo(f"Page: {html}")


def check_places(*paths: Path | None) -> None:
    """Raises a `ReportError` where one cannot be written: better before a run than after it."""
    from netgain.report.files import check_place

    for path in paths:
        if path is not None:
            check_place(path)


def with_warnings(report: "Report", warnings: tuple[str, ...]) -> "Report":
    """The report with more that makes it doubtful, in front."""
    return dataclasses.replace(report, warnings=(*warnings, *report.warnings))


def write_rows(run: "MeasuredRun", path: Path) -> None:
    """One row per request, as CSV."""
    from netgain.lab.request_rows import REQUEST_COLUMNS, request_rows
    from netgain.report.csv_form import write_csv
    from netgain.report.document import Column, Table

    columns = tuple(Column(name, name) for name in REQUEST_COLUMNS)
    write_csv(Table("requests", "Requests", columns, tuple(request_rows(run))), path)
