import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from netgain.report.document import (
    Axis,
    Basis,
    Chart,
    Column,
    Figure,
    Interval,
    Report,
    Section,
    Series,
    Table,
)
from netgain.report.errors import ReportError
from netgain.report.page import page_html, write_page
from tests.report.browser import Visit, visit
from tests.report.samples import FULL, HOSTILE


class _Outline(HTMLParser):
    """Tags with their attributes, and the text outside scripts and styles."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._inside:
            while self._inside.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self._inside):
            self.text += data


def _outline(html: str) -> _Outline:
    outline = _Outline()
    outline.feed(html)
    return outline


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Visit:
    folder = tmp_path_factory.mktemp("page")
    page = folder / "report.html"
    write_page(FULL, page)
    return visit(page, folder)


def test_every_chart_is_drawn_in_a_browser(seen: Visit) -> None:
    for name in ("memory", "curve", "cdf", "timeline"):
        (element,) = re.findall(rf'<div class="chart[^"]*" id="{name}".*?</figure>', seen.dom, re.S)
        assert 'class="main-svg"' in element
        assert re.search(r'<path class="(js-line|point)|class="point"', element)


def test_a_browser_finds_no_fault_and_the_page_asks_for_nothing(seen: Visit) -> None:
    assert seen.console == ()
    assert seen.requests == ()


def test_a_fault_and_a_request_of_a_page_would_have_been_noticed(tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text('<script>undefinedName()</script><img src="http://other.invalid/a.png">')
    bad = visit(page, tmp_path)
    assert any("undefinedName is not defined" in line for line in bad.console)
    assert bad.requests[0] == "http://other.invalid/a.png"


def test_words_from_elsewhere_are_text_everywhere_on_the_page(seen: Visit) -> None:
    for html in (page_html(FULL), seen.dom):
        outline = _outline(html)
        assert outline.text.count(HOSTILE) >= 8
        assert not [attrs for tag, attrs in outline.tags if tag == "img" or "onerror" in attrs]


def test_hostile_names_in_charts_cannot_end_their_script() -> None:
    chart = Chart(
        "c",
        HOSTILE,
        Axis(HOSTILE),
        Axis(HOSTILE),
        (Series(HOSTILE, (HOSTILE, "<!--"), (1.0, 2.0), texts=(HOSTILE, HOSTILE)),),
    )
    plain = Chart("c", "c", Axis("x"), Axis("y"), (Series("s", ("a", "b"), (1.0, 2.0)),))
    hostile_html = page_html(Report("t", (Section("s", charts=(chart,)),)))
    plain_html = page_html(Report("t", (Section("s", charts=(plain,)),)))
    tags = [tag for tag, _ in _outline(hostile_html).tags]
    assert tags == [tag for tag, _ in _outline(plain_html).tags]


def test_the_page_names_no_address_outside_itself() -> None:
    html = page_html(FULL)
    for _, attrs in _outline(html).tags:
        for attribute in ("src", "href", "action", "data"):
            address = attrs.get(attribute) or ""
            assert not address or address.startswith(("#", "data:"))
    assert "default-src 'none'" in html


def test_the_drawing_library_is_there_once_and_only_where_it_is_needed() -> None:
    assert page_html(FULL).count("* plotly.js v") == 1
    bare = page_html(Report("t", (Section("s", text=("x",)),)))
    assert "plotly.js" not in bare
    assert len(bare) < 20_000


def test_headings_nest_and_ids_are_unique() -> None:
    tags = _outline(page_html(FULL)).tags
    levels = [int(tag[1]) for tag, _ in tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    ids = [attrs["id"] for _, attrs in tags if attrs.get("id")]
    assert len(ids) == len(set(ids))
    for _, attrs in tags:
        for id_ in (attrs.get("aria-labelledby") or "").split():
            assert id_ in ids


def test_figures_show_value_basis_and_arithmetic() -> None:
    text = " ".join(_outline(page_html(FULL)).text.split())
    assert "KV cache 32 GiB 34,359,738,368 B exact How 2 x 32 layers" in text
    assert "measured observed on this system" in text


def test_a_page_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    page = tmp_path / "a.html"
    page.write_text("old")
    twice = Figure("n", "n", 1, "", Basis.EXACT)
    with pytest.raises(ReportError, match="two figures"):
        write_page(Report("t", (Section("s", figures=(twice, twice)),)), page)
    assert page.read_text() == "old"
    with pytest.raises(ReportError, match="its folder does not exist"):
        write_page(FULL, tmp_path / "no" / "a.html")


def test_a_table_says_once_what_all_its_numbers_are() -> None:
    def shown(*bases: Basis) -> tuple[str, str]:
        columns = tuple(Column(f"c{n}", f"c{n}", "s", basis) for n, basis in enumerate(bases))
        row = {column.key: 1.0 for column in columns}
        page = page_html(Report("t", (Section("s", tables=(Table("t", "T", columns, (row,)),)),)))
        card = page.partition("</table>")[0].rpartition("<h3")[2]
        return card.partition("<table")[0], card

    title, card = shown(Basis.MEASURED, Basis.MEASURED)
    assert "measured" in title
    assert card.count(">measured<") == 1
    title, card = shown(Basis.MEASURED, Basis.CALIBRATED)
    assert "measured" not in title
    assert (card.count(">measured<"), card.count(">calibrated<")) == (1, 1)


def test_an_interval_stands_beneath_its_figure() -> None:
    figure = Figure("r", "rate", 6.6, "requests/s", Basis.MEASURED, interval=Interval(5.0, 8.1))
    page = page_html(Report("t", (Section("s", figures=(figure,)),)))
    assert "95 %: 5–8.1 requests/s" in page  # noqa: RUF001
