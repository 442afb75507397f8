import json

from netgain.report.document import Basis, Cell, Column, Form, Report, Section, Sign, Table
from netgain.report.json_form import json_text
from netgain.report.page import page_html
from netgain.report.side_by_side import side_by_side
from netgain.report.terminal import report_text

ROWS: tuple[dict[str, Cell], ...] = (
    {"device": "Alpha", "rate": 989e12, "narrow": 1979e12, "link": "Link 4", "sure": "read"},
    {"device": "Beta", "rate": 188e12, "narrow": None, "link": "chip-to-chip", "sure": "memory"},
)
DEVICES = Table(
    "axes",
    "Devices",
    (
        Column("device", "Device"),
        Column("rate", "rate", "FLOP/s", Basis.ASSUMED, "Compute", "sure"),
        Column("narrow", "narrow rate", "FLOP/s", Basis.ASSUMED, "Compute"),
        Column("unknown", "not known of any", "W", Basis.ASSUMED, "Power"),
        Column("link", "link", group="Links"),
    ),
    ROWS,
    Form.SIDE_BY_SIDE,
    (Sign("memory", "?", "checked by nobody"), Sign("derived", "~", "derived")),
)
SOURCES = Table(
    "sources",
    "Sources",
    (Column("device", "Device"), Column("source", "Source")),
    ({"device": "Alpha", "source": "a long source"},),
    Form.NOTES,
)
REPORT = Report("t", (Section("axes", tables=(DEVICES,)), Section("from", tables=(SOURCES,))))


def test_quantities_of_a_group_with_one_unit_have_one_scale() -> None:
    lines = {line.label: line.cells for line in side_by_side(DEVICES).lines}
    assert lines["rate, TFLOP/s"] == ("989", "188 ?")
    assert lines["narrow rate, TFLOP/s"] == ("1,979", "–")  # noqa: RUF001


def test_what_no_row_has_is_left_out() -> None:
    assert all("not known" not in line.label for line in side_by_side(DEVICES).lines)


def test_only_signs_that_stand_somewhere_are_explained() -> None:
    assert [sign.sign for sign in side_by_side(DEVICES).signs] == ["?"]
    assert "? checked by nobody" in report_text(REPORT)


def test_devices_stand_beside_each_other_on_a_terminal_under_headings() -> None:
    lines = report_text(REPORT, width=80).splitlines()
    head = next(line for line in lines if line.startswith("Device "))
    assert head.split() == ["Device", "Alpha", "Beta"]
    assert "Compute:" in lines
    assert any(line.split() == ["rate,", "TFLOP/s", "989", "188", "?"] for line in lines)


def test_notes_are_shown_on_a_terminal_only_with_explain() -> None:
    assert "a long source" not in report_text(REPORT)
    assert "\nfrom\n" not in report_text(REPORT)
    assert "Alpha: a long source" in report_text(REPORT, explain=True)


def test_programs_get_every_row_as_it_is_and_how_sure_it_is() -> None:
    tables = json.loads(json_text(REPORT))["tables"]
    rows = tables["axes"]["rows"]
    assert rows[1]["rate"] == 188e12
    assert rows[1]["sure"] == "memory"
    assert tables["sources"]["rows"]


def test_a_page_shows_both_forms() -> None:
    page = page_html(REPORT)
    assert '<th scope="col" class="number">Alpha</th>' in page
    assert '<td class="number">188 ?</td>' in page
    assert "a long source" in page
    assert "? checked by nobody" in page


def test_a_name_too_long_for_the_terminal_is_folded() -> None:
    long: dict[str, Cell] = {**ROWS[0], "device": "x" * 200}
    table = Table("t", "T", DEVICES.columns, (long, ROWS[1]), Form.SIDE_BY_SIDE)
    text = report_text(Report("t", (Section("s", tables=(table,)),)), width=50)
    assert max(map(len, text.splitlines())) <= 50
