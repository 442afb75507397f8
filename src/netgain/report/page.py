"""A report as one HTML page that needs nothing else: no network, no other file."""

import json
from collections.abc import Iterator, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Final

from netgain._version import __version__
from netgain.report import contents
from netgain.report.cells import cell_text, is_numeric
from netgain.report.document import Basis, Chart, Figure, Form, Report, Section, Table
from netgain.report.files import write_file
from netgain.report.plotly_chart import plotly_chart
from netgain.report.side_by_side import side_by_side
from netgain.report.units import bounds, exact_count, quantity

_MANY_SECTIONS: Final = 3
_POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'"
)
"""The browser itself refuses what would leave the page."""


def page_html(report: Report) -> str:
    """The page. Its charts' elements have the charts' names as ids, its tables `table-<name>`.

    Raises `ReportError` for a report that contradicts itself.
    """
    contents.check(report)
    return "".join(_page(report))


def write_page(report: Report, path: Path) -> None:
    """Writes the page whole or not at all. Raises `ReportError` where it cannot be written."""
    write_file(path, page_html(report))


def _page(report: Report) -> Iterator[str]:
    charts = [chart for section in report.sections for chart in section.charts]
    title = escape(report.title)
    yield (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{title}</title>\n<style>\n{_own_file('page.css')}</style>\n</head>\n<body>\n"
        f"<header>\n<h1>{title}</h1>\n"
    )
    yield from _answer(report)
    yield from _contents_list(report.sections)
    yield "</header>\n<main>\n"
    for index, section in enumerate(report.sections, 1):
        yield from _section(section, index)
    if report.context:
        yield from _context(report)
    yield "</main>\n<footer>\n"
    yield from _legend(report)
    yield f"<p>Made by netgain {escape(__version__)}.</p>\n</footer>\n"
    if charts:
        yield "<noscript><p>The charts need JavaScript.</p></noscript>\n"
        for chart in charts:
            yield _chart_data(chart)
        yield f"<script>{_plotly_js()}</script>\n<script>\n{_own_file('page.js')}</script>\n"
    yield "</body>\n</html>\n"


def _answer(report: Report) -> Iterator[str]:
    if report.verdict:
        yield '<div class="verdict">\n'
        for sentence in report.verdict:
            yield f"<p>{escape(sentence)}</p>\n"
        yield "</div>\n"
    if report.warnings:
        yield '<div class="warnings" role="note" aria-label="Warnings">\n<ul>\n'
        for warning in report.warnings:
            yield f"<li>{escape(warning)}</li>\n"
        yield "</ul>\n</div>\n"


def _contents_list(sections: Sequence[Section]) -> Iterator[str]:
    if len(sections) < _MANY_SECTIONS:
        return
    yield '<nav aria-label="Sections">\n<ul>\n'
    for index, section in enumerate(sections, 1):
        yield f'<li><a href="#section-{index}">{escape(section.heading)}</a></li>\n'
    yield "</ul>\n</nav>\n"


def _section(section: Section, index: int) -> Iterator[str]:
    yield f'<section aria-labelledby="section-{index}">\n'
    yield f'<h2 id="section-{index}">{escape(section.heading)}</h2>\n'
    for paragraph in section.text:
        yield f"<p>{escape(paragraph)}</p>\n"
    if section.figures:
        yield '<div class="figures">\n'
        for figure in section.figures:
            yield from _figure(figure)
        yield "</div>\n"
    for table in section.tables:
        yield from _table(table)
    for chart in section.charts:
        yield _chart(chart)
    yield "</section>\n"


def _figure(figure: Figure) -> Iterator[str]:
    exact = exact_count(figure.value, figure.unit) if figure.basis is Basis.EXACT else ""
    looks = "value words" if isinstance(figure.value, str) else "value"
    yield (
        f'<dl class="card figure" id="figure-{escape(figure.name)}">\n'
        f"<dt>{escape(figure.label)}</dt>\n"
        f'<dd class="{looks}">{escape(quantity(figure.value, figure.unit))}</dd>\n'
    )
    if exact:
        yield f'<dd class="count">{escape(exact)}</dd>\n'
    if figure.interval is not None:
        known = bounds(figure.interval.low, figure.interval.high, figure.unit)
        yield f'<dd class="count">95 %: {escape(known)}</dd>\n'
    yield f"<dd>{_basis(figure.basis)}"
    if figure.arithmetic or figure.source:
        yield "\n<details><summary>How</summary>\n"
        if figure.arithmetic:
            yield f"<p><code>{escape(figure.arithmetic)}</code></p>"
        if figure.source:
            yield f"<p>Source: {escape(figure.source)}</p>"
        yield "</details>"
    yield "</dd>\n</dl>\n"


def _basis(basis: Basis) -> str:
    return f'<span class="basis {basis.value}">{basis.value}</span>'


def _table(table: Table) -> Iterator[str]:
    name = escape(table.name)
    bases = {column.basis for column in table.columns if column.basis}
    told_apart = len(bases) > 1
    of_all = "" if told_apart else "".join(f" {_basis(basis)}" for basis in bases)
    yield (
        f'<div class="card">\n<h3 id="table-{name}-title">{escape(table.title)}{of_all}</h3>\n'
        # A region that scrolls must be reachable without a mouse.
        f'<div class="scroll" role="region" tabindex="0" aria-labelledby="table-{name}-title">\n'
        f'<table id="table-{name}" aria-labelledby="table-{name}-title">\n'
    )
    form = _beside if table.form is Form.SIDE_BY_SIDE else _rows
    yield from form(table, told_apart)
    yield "</tbody>\n</table>\n</div>\n"
    if table.form is Form.SIDE_BY_SIDE:
        for sign in side_by_side(table).signs:
            yield f"<p>{escape(sign.sign)} {escape(sign.meaning)}</p>\n"
    yield "</div>\n"


def _beside(table: Table, told_apart: bool) -> Iterator[str]:
    turned = side_by_side(table)
    yield f'<thead><tr><th scope="col">{escape(turned.corner)}</th>'
    for head in turned.heads:
        yield f'<th scope="col" class="number">{escape(head)}</th>'
    yield "</tr></thead>\n<tbody>\n"
    group = ""
    for line in turned.lines:
        if line.group and line.group != group:
            span = len(turned.heads) + 1
            yield f'<tr><th scope="colgroup" colspan="{span}">{escape(line.group)}</th></tr>\n'
        group = line.group
        basis = f" {_basis(line.column.basis)}" if line.column.basis and told_apart else ""
        yield f'<tr><th scope="row">{escape(line.label)}{basis}</th>'
        for cell in line.cells:
            looks = "number" if line.numeric else "words"
            yield f'<td class="{looks}">{escape(cell)}</td>'
        yield "</tr>\n"


def _rows(table: Table, told_apart: bool) -> Iterator[str]:
    yield "<thead><tr>"
    numeric = [is_numeric(table, column) for column in table.columns]
    for column, right in zip(table.columns, numeric, strict=True):
        basis = f"<br>{_basis(column.basis)}" if column.basis and told_apart else ""
        yield f'<th scope="col"{_side(right)}>{escape(column.label)}{basis}</th>'
    yield "</tr></thead>\n<tbody>\n"
    for row in table.rows:
        yield "<tr>"
        for column, right in zip(table.columns, numeric, strict=True):
            yield f"<td{_side(right)}>{escape(cell_text(column, row))}</td>"
        yield "</tr>\n"


def _side(right: bool) -> str:
    return ' class="number"' if right else ""


def _chart(chart: Chart) -> str:
    name = escape(chart.name)
    series = ", ".join(series.name for series in chart.series)
    described = f"{chart.title}: {chart.y.label} over {chart.x.label}; {series}"
    return (
        f'<figure class="card" aria-labelledby="{name}-title">\n'
        f'<h3 id="{name}-title">{escape(chart.title)}</h3>\n'
        f'<div class="chart" id="{name}" role="img" aria-label="{escape(described)}"></div>\n'
        "</figure>\n"
    )


def _chart_data(chart: Chart) -> str:
    data = script_safe(json.dumps(plotly_chart(chart), separators=(",", ":"), allow_nan=False))
    return f'<script type="application/json" data-chart="{escape(chart.name)}">{data}</script>\n'


def script_safe(data: str) -> str:
    """JSON that cannot end the script element it stands in, nor begin a comment there."""
    return data.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _context(report: Report) -> Iterator[str]:
    yield '<section aria-labelledby="context-title">\n<h2 id="context-title">What was asked</h2>\n'
    yield '<dl class="context">\n'
    for key, value in report.context.items():
        yield f"<dt>{escape(key)}</dt><dd>{escape(quantity(value))}</dd>\n"
    yield "</dl>\n</section>\n"


def _legend(report: Report) -> Iterator[str]:
    used = {figure.basis for section in report.sections for figure in section.figures}
    for table in contents.tables_by_name(report).values():
        used |= {column.basis for column in table.columns if column.basis}
    if not used:
        return
    yield "<ul>\n"
    for basis in Basis:
        if basis in used:
            yield f"<li>{_basis(basis)} {escape(basis.meaning)}</li>\n"
    yield "</ul>\n"


@cache
def _own_file(name: str) -> str:
    return (files("netgain.report") / name).read_text(encoding="utf-8")


@cache
def _plotly_js() -> str:
    # Read as a file: importing plotly itself would take ten times as long and give the same text.
    text = (files("plotly") / "package_data" / "plotly.min.js").read_text(encoding="utf-8")
    return text.replace("</script", "<\\/script")
