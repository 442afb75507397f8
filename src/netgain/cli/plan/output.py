"""How a plan is shown: the one place that renders."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from netgain.report.document import Report


def show(report: "Report", *, as_json: bool, html: Path | None, plot: bool, explain: bool) -> None:
    """Prints a report as text or JSON, and writes it as a page where asked to."""
    if html is not None:
        from netgain.report.page import write_page

        write_page(report, html)
    if as_json:
        from netgain.report.json_form import json_text

        typer.echo(json_text(report), nl=False)
        return
    from netgain.report.terminal import print_report

    print_report(report, explain=explain, plot=plot)
    if html is not None:
        typer.echo(f"Page: {html}")
