import csv
import io
import json
import math
from pathlib import Path

import pytest

from netgain.report.csv_form import table_csv, write_csv
from netgain.report.document import (
    Axis,
    Basis,
    Chart,
    Column,
    Figure,
    Interval,
    Mark,
    Report,
    Section,
    Series,
    Table,
)
from netgain.report.errors import ReportError
from netgain.report.json_form import json_text, report_object
from tests.report.samples import FULL, HOSTILE, LATENCIES


def _report(section: Section) -> Report:
    return Report("t", (section,))


def test_json_holds_the_whole_report_unscaled() -> None:
    value = json.loads(json_text(FULL))
    assert list(value) == [
        "title",
        "verdict",
        "warnings",
        "context",
        "figures",
        "tables",
        "charts",
    ]
    assert value["figures"]["kv_bytes"] == {
        "value": 34359738368,
        "unit": "bytes",
        "basis": "exact",
        "label": "KV cache",
        "arithmetic": FULL.figure("kv_bytes").arithmetic,
        "source": "SPEC 3",
    }
    assert value["tables"]["latencies"]["columns"][1] == {
        "key": "p50_s",
        "label": "p50",
        "unit": "s",
        "basis": "measured",
    }
    assert value["tables"]["latencies"]["rows"][0]["p99_s"] == 1.5
    assert value["charts"]["timeline"]["series"][0]["x_end"] == [0.2, 0.3]
    assert value["context"]["seed"] == 7
    assert value["warnings"][1] == HOSTILE


def test_whole_numbers_stay_exact_in_json_however_large() -> None:
    large = 2**70 + 1
    section = Section("s", figures=(Figure("n", "n", large, "", Basis.EXACT),))
    assert json.loads(json_text(_report(section)))["figures"]["n"]["value"] == large


def test_what_is_not_finite_is_null_in_json() -> None:
    figures = (
        Figure("a", "a", math.nan, "s", Basis.MEASURED),
        Figure("b", "b", -math.inf, "s", Basis.MEASURED),
    )
    value = json.loads(json_text(_report(Section("s", figures=figures))))
    assert value["figures"]["a"]["value"] is None
    assert value["figures"]["b"]["value"] is None
    assert json.loads(json_text(FULL))["charts"]["curve"]["series"][1]["y"][2] is None


def test_a_missing_cell_is_null_and_a_key_without_a_column_is_not_shown() -> None:
    table = Table("t", "t", (Column("a", "A"), Column("b", "B")), ({"a": 1, "c": 2},))
    value = json.loads(json_text(_report(Section("s", tables=(table,)))))
    assert value["tables"]["t"]["rows"] == [{"a": 1, "b": None}]


def test_names_that_come_twice_are_an_error() -> None:
    figure = Figure("n", "n", 1, "", Basis.EXACT)
    chart = Chart("c", "c", Axis("x"), Axis("y"), ())
    for twice, name in [
        (Section("s", figures=(figure, figure)), "two figures of this report are named 'n'"),
        (Section("s", tables=(LATENCIES, LATENCIES)), "two tables"),
        (Section("s", charts=(chart, chart)), "two charts"),
    ]:
        with pytest.raises(ReportError, match=name):
            report_object(_report(twice))


def test_series_of_uneven_length_are_an_error_that_names_them() -> None:
    series = Series("a", (1.0, 2.0), (1.0,))
    spans = Series("b", (1.0,), (1.0,), Mark.SPANS)
    for broken, told in [(series, "2 x, 1 y"), (spans, "1 x, 1 y, 0 x_end")]:
        chart = Chart("c", "c", Axis("x"), Axis("y"), (broken,))
        with pytest.raises(ReportError, match=f"chart 'c', series '{broken.name}': {told}"):
            report_object(_report(Section("s", charts=(chart,))))


def test_a_table_survives_csv() -> None:
    rows = list(csv.DictReader(io.StringIO(table_csv(LATENCIES))))
    assert rows == [
        {"metric": "TTFT", "p50_s": "0.0123", "p99_s": "1.5", "n": "1234"},
        {"metric": "TPOT", "p50_s": "", "p99_s": "", "n": "3"},
    ]


def test_words_with_commas_quotes_and_line_feeds_survive_csv() -> None:
    word = 'a,"b"\nc'
    table = Table("t", "t", (Column("a", "A"), Column("b", "B")), ({"a": word, "b": True},))
    assert list(csv.DictReader(io.StringIO(table_csv(table)))) == [{"a": word, "b": "true"}]


def test_files_are_written_whole_and_leave_nothing_beside_them(tmp_path: Path) -> None:
    target = tmp_path / "run.csv"
    target.write_text("old")
    write_csv(LATENCIES, target)
    assert target.read_text() == table_csv(LATENCIES)
    assert [p.name for p in tmp_path.iterdir()] == ["run.csv"]


def test_a_place_that_cannot_be_written_is_named_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"nowhere.*its folder does not exist; make it"):
        write_csv(LATENCIES, tmp_path / "nowhere" / "run.csv")
    with pytest.raises(ReportError, match="it is a folder; name a file"):
        write_csv(LATENCIES, tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ReportError, match="cannot write"):
        write_csv(LATENCIES, tmp_path / "file" / "run.csv")


def test_an_interval_is_two_numbers_in_json_and_csv() -> None:
    column = Column("p50", "p50", "s", Basis.MEASURED, bounds=("p50_low_s", "p50_high_s"))
    table = Table("t", "T", (column,), ({"p50_low_s": 0.15, "p50_high_s": None},))
    figure = Figure("f", "F", 1.0, "s", Basis.MEASURED, interval=Interval(0.5, 2.0))
    found = report_object(Report("r", (Section("s", figures=(figure,), tables=(table,)),)))
    assert found["tables"]["t"]["rows"] == [{"p50_low_s": 0.15, "p50_high_s": None}]  # type: ignore[index,call-overload]
    assert (found["figures"]["f"]["low"], found["figures"]["f"]["high"]) == (0.5, 2.0)  # type: ignore[index,call-overload]
    assert table_csv(table) == "p50_low_s,p50_high_s\n0.15,\n"
