"""A report as terminal text: the answer first, every figure with what it is."""

import io
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TextIO

from netgain.report import contents
from netgain.report.cells import cell_text, is_numeric
from netgain.report.document import Basis, Chart, Column, Figure, Form, Report, Section, Table
from netgain.report.printable import printable
from netgain.report.side_by_side import SideBySide, side_by_side
from netgain.report.units import bounds, exact_count, quantity

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table as RichTable

_DEFAULT_WIDTH: Final = 80
_PROSE_WIDTH: Final = 100
_PLOT_WIDTH: Final = 100
_NO_LIMIT: Final = 1_000_000
_LONGEST_WORD: Final = 24
"""A text cell is at least as wide as its longest word, up to this; longer words are folded."""
_WIDEST_LABEL: Final = 26
"""Names of quantities are not broken up to this."""
_GAP: Final = 2
_STYLES: Final = {
    Basis.MEASURED: "green",
    Basis.CALIBRATED: "cyan",
    Basis.ASSUMED: "yellow",
    Basis.EXACT: "blue",
}


@dataclass(frozen=True, slots=True)
class _Page:
    """Where and how: `width` in characters; None lets tables be as wide as they are."""

    console: "Console"
    width: int | None
    color: bool

    @property
    def prose(self) -> int:
        return min(self.width or _DEFAULT_WIDTH, _PROSE_WIDTH)

    def show(self, what: "RenderableType", *, width: int | None = None) -> None:
        self.console.print(what, width=width or self.prose)


def print_report(
    report: Report, *, explain: bool = False, plot: bool = False, file: TextIO | None = None
) -> None:
    """Prints it to `file` (default: standard output).

    On a terminal it keeps to the terminal's width and uses its colours, unless NO_COLOR is set. In
    a pipe tables are as wide as they are, so that one row stays one line.
    """
    import os
    import shutil

    out = sys.stdout if file is None else file
    terminal = out.isatty()
    width = shutil.get_terminal_size().columns if terminal else None
    color = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    text = report_text(report, width=width, color=color, explain=explain, plot=plot)
    encoding = out.encoding or "utf-8"
    out.write(text.encode(encoding, errors="replace").decode(encoding))
    out.flush()


def report_text(
    report: Report,
    *,
    width: int | None = _DEFAULT_WIDTH,
    color: bool = False,
    explain: bool = False,
    plot: bool = False,
) -> str:
    """The report as text, no line longer than `width`; None widens it to its tables.

    `explain` adds each figure's arithmetic and source, `plot` draws the charts. Raises
    `ReportError` for a report that contradicts itself.
    """
    from rich.console import Console
    from rich.text import Text

    contents.check(report)
    buffer = io.StringIO()
    console = Console(
        file=buffer,
        width=_NO_LIMIT,
        force_terminal=color,
        color_system="standard" if color else None,
        markup=False,
        highlight=False,
        emoji=False,
        legacy_windows=False,
    )
    page = _Page(console, None if width is None else max(width, 40), color)
    page.show(Text(printable(report.title), style="bold"))
    for sentence in report.verdict:
        page.show(Text(printable(sentence)))
    for warning in report.warnings:
        page.show(_labelled("warning: ", "bold yellow", warning))
    for section in report.sections:
        _section(page, section, explain=explain, plot=plot)
    if report.context:
        page.show("")
        for key, value in report.context.items():
            line = Text(f"{printable(key)}: ", style="dim")
            page.show(line.append(printable(quantity(value)), style="not dim"))
    return "\n".join(line.rstrip() for line in buffer.getvalue().split("\n"))


def _section(page: _Page, section: Section, *, explain: bool, plot: bool) -> None:
    from rich.text import Text

    tables = [table for table in section.tables if explain or table.form is not Form.NOTES]
    if not (section.text or section.figures or tables or (plot and section.charts)):
        return
    page.show("")
    page.show(Text(printable(section.heading), style="bold underline"))
    for paragraph in section.text:
        page.show(Text(printable(paragraph)))
    _figures(page, section.figures, explain=explain)
    for table in section.tables:
        if table.form is Form.SIDE_BY_SIDE:
            _beside(page, table)
        elif table.form is Form.ROWS:
            _table(page, table)
        elif explain:
            _notes(page, table)
    if plot:
        for chart in section.charts:
            _chart(page, chart)


def _labelled(label: str, style: str, text: str) -> "RichTable":
    from rich.table import Table as RichTable
    from rich.text import Text

    grid = RichTable.grid()
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text(label, style=style), Text(printable(text)))
    return grid


def _figures(page: _Page, figures: Sequence[Figure], *, explain: bool) -> None:
    from rich.padding import Padding
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = [(figure, _value_text(figure), _known_text(figure)) for figure in figures]
    basis_width = max((len(figure.basis.value) for figure in figures), default=0)
    value_width = max((len(value) for _, value, _ in shown), default=0)
    value_width = min(value_width, page.prose // 2)
    known_width = max((len(known) for _, _, known in shown), default=0)
    label_width = max((len(figure.label) for figure in figures), default=0)
    others = value_width + known_width + basis_width + 4 * _GAP
    if page.prose - others < _LONGEST_WORD:
        others, known_width = others - known_width - _GAP, 0
    label_width = max(min(label_width, page.prose - others), 8)
    for figure, value, known in shown:
        row = RichTable.grid(padding=(0, _GAP, 0, 0))
        row.add_column(width=label_width, overflow="fold")
        row.add_column(width=value_width, justify="right", overflow="fold")
        cells = [Text(printable(figure.label)), Text(value, style="bold")]
        if known_width:
            row.add_column(width=known_width, no_wrap=True)
            cells.append(Text(known))
        row.add_column(width=basis_width, no_wrap=True)
        row.add_row(*cells, Text(figure.basis.value, style=_STYLES[figure.basis]))
        page.show(row)
        if explain:
            for line in _explanation(figure):
                page.show(Padding(Text(printable(line), style="dim"), (0, 0, 0, 4)))


def _value_text(figure: Figure) -> str:
    value = printable(quantity(figure.value, figure.unit))
    exact = exact_count(figure.value, figure.unit) if figure.basis is Basis.EXACT else ""
    return f"{value} ({exact})" if exact else value


def _known_text(figure: Figure) -> str:
    """The interval, in brackets."""
    if figure.interval is None:
        return ""
    return f"[{printable(bounds(figure.interval.low, figure.interval.high, figure.unit))}]"


def _explanation(figure: Figure) -> Iterator[str]:
    if figure.arithmetic:
        yield f"= {figure.arithmetic}"
    if figure.source:
        yield f"source: {figure.source}"


def _title(page: _Page, table: Table) -> bool:
    """Shows it, with what all numbers are; True where columns differ in that and must say it."""
    from rich.text import Text

    bases = {column.basis for column in table.columns if column.basis is not None}
    title = Text(printable(table.title), style="bold")
    if len(bases) == 1:
        basis = next(iter(bases))
        title.append(f" ({basis.value})", style=_STYLES[basis])
    page.show("")
    page.show(title)
    return len(bases) > 1


def _notes(page: _Page, table: Table) -> None:
    from rich.text import Text

    _title(page, table)
    for row in table.rows:
        head, *texts = [quantity(row.get(c.key), c.unit) for c in table.columns if row.get(c.key)]
        page.show(Text(f"{printable(head)}: {printable('; '.join(texts))}"))


def _beside(page: _Page, table: Table) -> None:
    from rich.text import Text

    with_basis = _title(page, table)
    turned = side_by_side(table)
    cells = list(_beside_rows(turned, with_basis=with_basis))
    heads = [printable(turned.corner), *(printable(head) for head in turned.heads)]
    least = [
        _least_width([head, *(row[i] for row in cells)], whole=False)
        for i, head in enumerate(heads)
    ]
    least[0] = min(max(len(row[0]) for row in cells), _WIDEST_LABEL) if cells else least[0]
    # A number must not break at the blank before its sign.
    for index in range(1, len(heads)):
        numbers = [len(line.cells[index - 1]) for line in turned.lines if line.numeric]
        least[index] = max([least[index], *numbers])
    _blocks_of(page, heads, cells, [False, *[True] * len(turned.heads)], least)
    for sign in turned.signs:
        page.show(Text(f"{sign.sign} {sign.meaning}"))


def _beside_rows(turned: SideBySide, *, with_basis: bool) -> Iterator[list[str]]:
    group = ""
    for line in turned.lines:
        if line.group and line.group != group:
            yield [f"{printable(line.group)}:", *[""] * len(turned.heads)]
        group = line.group
        basis = line.column.basis
        label = f"{line.label} ({basis.value})" if with_basis and basis else line.label
        indent = "  " if group else ""
        yield [indent + printable(label), *(printable(cell) for cell in line.cells)]


def _table(page: _Page, table: Table) -> None:
    with_basis = _title(page, table)
    cells = [[printable(cell_text(column, row)) for column in table.columns] for row in table.rows]
    heads = [_heading(column, with_basis=with_basis) for column in table.columns]
    numeric = [is_numeric(table, column) for column in table.columns]
    least = [
        _least_width([heads[i], *(row[i] for row in cells)], whole=numeric[i])
        for i in range(len(table.columns))
    ]
    natural = _natural(heads, cells)
    least[0] = max(least[0], min(natural[0], _LONGEST_WORD))  # a row's name is read first
    _blocks_of(page, heads, cells, numeric, least)


def _blocks_of(
    page: _Page,
    heads: Sequence[str],
    cells: Sequence[Sequence[str]],
    numeric: Sequence[bool],
    least: Sequence[int],
) -> None:
    natural = _natural(heads, cells)
    for columns in _blocks(least, page.width, _leading(cells, least, page.width)):
        widths = _widths([natural[i] for i in columns], [least[i] for i in columns], page.width)
        page.show(_grid(columns, heads, cells, numeric, widths), width=_NO_LIMIT)


def _natural(heads: Sequence[str], cells: Sequence[Sequence[str]]) -> list[int]:
    return [
        max(1, *(len(line) for text in (head, *(row[i] for row in cells)) for line in _lines(text)))
        for i, head in enumerate(heads)
    ]


def _heading(column: Column, *, with_basis: bool) -> str:
    label = printable(column.label)
    return f"{label}\n{column.basis.value}" if with_basis and column.basis else label


def _lines(text: str) -> list[str]:
    return text.split("\n")


def _widths(natural: Sequence[int], least: Sequence[int], width: int | None) -> list[int]:
    """Columns side by side within `width`: as wide as they are, or else no narrower than `least`
    while that fits, and what is left goes to those that need the least more.
    """
    if width is None:
        return list(natural)
    widths = [min(pair) for pair in zip(natural, least, strict=True)]
    spare = width - sum(widths) - _GAP * (len(widths) - 1)
    for i in sorted(range(len(widths)), key=lambda i: natural[i] - widths[i]):
        more = max(0, min(natural[i] - widths[i], spare))
        widths[i] += more
        spare -= more
    while spare < 0 and max(widths) > 1:
        widths[widths.index(max(widths))] -= 1
        spare += 1
    return widths


def _least_width(texts: Sequence[str], *, whole: bool) -> int:
    """The narrowest that reads well: numbers stay whole, text may break between words."""
    words = [len(word) for word in texts[0].split()]
    for text in texts[1:]:
        words.extend([len(text)] if whole else [len(word) for word in text.split()])
    widest = max(words, default=1)
    return widest if whole else min(widest, _LONGEST_WORD)


def _blocks(least: Sequence[int], width: int | None, leading: int) -> list[list[int]]:
    """Columns that fit side by side; where not all do, each block begins with the leading ones.

    Blocks are about equally wide: no last column stands alone.
    """
    if width is None or sum(w + _GAP for w in least) <= width:
        return [list(range(len(least)))]
    blocks = _filled(least, width, leading, len(least))
    return _filled(least, width, leading, math.ceil((len(least) - leading) / len(blocks)))


def _filled(least: Sequence[int], width: int, leading: int, most: int) -> list[list[int]]:
    """Blocks of at most so many columns beside the leading ones, as full as they go."""
    blocks = [list(range(leading))]
    for index in range(leading, len(least)):
        block = blocks[-1]
        over = sum(least[i] + _GAP for i in (*block, index)) > width
        if len(block) > leading and (over or len(block) >= leading + most):
            blocks.append(list(range(leading)))
        blocks[-1].append(index)
    return blocks


def _leading(cells: Sequence[Sequence[str]], least: Sequence[int], width: int | None) -> int:
    """How many first columns tell the rows apart: 1, or 2 where that takes both and they fit."""
    if width is None or len(least) < 3 or least[0] + least[1] + 2 * _GAP > width // 2:
        return 1
    names, pairs = {row[0] for row in cells}, {(row[0], row[1]) for row in cells}
    return 2 if len(names) < len(pairs) else 1


def _grid(
    columns: Sequence[int],
    heads: Sequence[str],
    cells: Sequence[Sequence[str]],
    numeric: Sequence[bool],
    widths: Sequence[int],
) -> "RichTable":
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    # The box's own divider is one of the blanks between columns.
    padding = (0, _GAP - 1, 0, 0)
    grid = RichTable(box=box.SIMPLE_HEAD, show_edge=False, padding=padding, pad_edge=False)
    for index, width in zip(columns, widths, strict=True):
        grid.add_column(
            Text(heads[index]),
            justify="right" if numeric[index] else "left",
            width=width,
            overflow="fold",
            vertical="bottom" if numeric[index] else "top",
        )
    for row in cells:
        grid.add_row(*(Text(row[index]) for index in columns))
    return grid


def _chart(page: _Page, chart: Chart) -> None:
    from rich.text import Text

    from netgain.report.terminal_plot import plot_text

    page.show("")
    page.show(Text(printable(chart.title), style="bold"))
    width = min(page.width or _DEFAULT_WIDTH, _PLOT_WIDTH)
    page.show(Text.from_ansi(plot_text(chart, width, color=page.color)), width=_NO_LIMIT)
