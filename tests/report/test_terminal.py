import io
import subprocess
import sys

import pytest

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
from netgain.report.terminal import print_report, report_text
from netgain.report.terminal_plot import plot_text
from tests.report.samples import BARS, CDF, CURVE, FULL, TIMELINE

WIDE = Table(
    "wide",
    "Wide",
    (Column("model", "Model"), *(Column(f"c{i}", f"column {i}", "tokens") for i in range(12))),
    tuple({"model": f"model-{r}", **{f"c{i}": 10**i + r for i in range(12)}} for r in range(3)),
)


def _report(*tables: Table) -> Report:
    return Report("t", (Section("s", tables=tables),))


def test_every_figure_shows_what_its_number_is() -> None:
    lines = report_text(FULL).splitlines()
    (kv,) = [line for line in lines if line.startswith("KV cache  ")]
    assert "32 GiB (34,359,738,368 B)" in kv
    assert kv.endswith("exact")
    (ttft,) = [line for line in lines if line.startswith("TTFT p50")]
    assert ttft.split("  ")[1:] == ["12.35 ms", "measured"]


def test_the_verdict_comes_before_the_warnings_and_both_before_the_figures() -> None:
    text = report_text(FULL)
    assert text.index("It fits") < text.index("warning: The generator") < text.index("KV cache    ")


def test_explaining_adds_the_arithmetic_and_its_source() -> None:
    assert "source: SPEC 3" not in report_text(FULL)
    explained = " ".join(report_text(FULL, explain=True).split())
    assert FULL.figure("kv_bytes").arithmetic in explained
    assert "source: SPEC 3" in explained


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    report = Report("t", (*FULL.sections, Section("s", tables=(WIDE,))))
    text = report_text(report, width=width, explain=True, plot=True)
    assert max(len(line) for line in text.splitlines()) <= width


def test_no_cell_of_a_wide_table_is_cut_at_80_columns() -> None:
    text = report_text(_report(WIDE), width=80)
    assert "…" not in text
    for row in WIDE.rows:
        for i in range(12):
            assert f"{row[f'c{i}']:,} tokens" in text
    # Each block of columns begins with the row's name.
    assert text.count("model-0") == text.count("Model") > 1


def test_in_a_pipe_one_row_is_one_line() -> None:
    text = report_text(_report(WIDE), width=None)
    (row,) = [line for line in text.splitlines() if line.startswith("model-1")]
    assert row.count("tokens") == 12


def test_long_text_in_a_cell_wraps_and_stays_whole() -> None:
    words = " ".join(f"word{i}" for i in range(60))
    table = Table("t", "t", (Column("a", "A"), Column("n", "n")), ({"a": words, "n": 3},))
    text = report_text(_report(table), width=80)
    assert [w for w in text.split() if w.startswith("word")] == words.split()


def test_a_table_says_once_what_all_its_numbers_are_and_per_column_where_they_differ() -> None:
    columns = (Column("a", "a", "", Basis.MEASURED), Column("b", "b", "", Basis.MEASURED))
    same = report_text(_report(Table("t", "Same", columns, ({"a": 1, "b": 2},))))
    assert "Same (measured)" in same
    assert same.count("measured") == 1
    columns = (Column("a", "a", "", Basis.MEASURED), Column("b", "b", "", Basis.ASSUMED))
    mixed = report_text(_report(Table("t", "Mixed", columns, ({"a": 1, "b": 2},))))
    assert "measured  assumed" in mixed


def test_escape_sequences_from_elsewhere_are_shown_not_obeyed() -> None:
    report = Report("a\x1b[31mb\rc", (), context={"model": "x\x07"})
    assert "\x1b" not in report_text(report)
    assert "a\\x1b[31mb\\x0dc" in report_text(report)
    assert "\x07" not in report_text(report)


def test_square_brackets_are_text() -> None:
    figure = Figure("n", "[bold]n[/]", "[red]", "", Basis.EXACT)
    text = report_text(Report("t", (Section("[x]", figures=(figure,)),)))
    assert "[bold]n[/]" in text
    assert "[red]" in text


def test_only_a_terminal_gets_colours() -> None:
    out = io.StringIO()
    print_report(FULL, file=out, plot=True)
    assert "\x1b" not in out.getvalue()
    assert "\x1b[" in report_text(FULL, color=True, plot=True)


def test_what_the_output_cannot_encode_is_replaced() -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii")
    print_report(FULL, file=out, plot=True)
    assert b"TTFT p50" in raw.getvalue()


def test_plots_show_axes_units_and_legend() -> None:
    text = plot_text(CURVE, 80, color=False)
    assert "● p50" in text
    assert "x p99" in text
    assert "TTFT (ms)" in text
    assert "request rate (requests/s)" in text
    ticks = text.splitlines()[-2].split()
    assert ticks == ["1", "2", "5", "10", "20", "50", "100"]
    assert all(len(line) <= 80 for line in text.splitlines())


def test_bars_over_words_lie_under_one_another_in_order_and_to_scale() -> None:
    lines = plot_text(BARS, 80, color=False).splitlines()
    names = [line.split("┤")[0].strip() for line in lines if "┤" in line]
    assert names == ["weights", "KV cache"]
    lengths = [line.count("●") for line in lines[1:] if "●" in line]
    assert len(lengths) == 2
    assert lengths[0] / lengths[1] == pytest.approx(13_476_000_000 / 34_359_738_368, abs=0.03)


def test_a_timeline_begins_at_the_top_and_one_span_follows_another() -> None:
    lines = plot_text(TIMELINE, 80, color=False).splitlines()
    rows = [line for line in lines[1:] if "●" in line]
    assert [row.split("┤")[0].strip() for row in rows] == ["0", "1"]
    assert rows[0].index("●") < rows[1].index("●")
    assert "●x" in rows[0]


def test_steps_rise_at_their_points() -> None:
    text = plot_text(CDF, 60, color=False)
    assert "share (%)" in text
    assert "TTFT (ms)" in text


def test_nothing_finite_is_nothing_to_draw() -> None:
    chart = Chart(
        "c",
        "c",
        Axis("x", log=True),
        Axis("y", log=True),
        (Series("a", (0.0, -1.0), (1.0, 2.0)), Series("b", (1.0,), (float("nan"),))),
    )
    assert plot_text(chart, 80, color=False) == "(nothing to draw)"


def test_one_point_and_one_bar_are_drawn() -> None:
    for mark in (Mark.POINTS, Mark.BARS, Mark.LINE):
        chart = Chart("c", "c", Axis("x"), Axis("y"), (Series("a", (3.0,), (7.0,), mark),))
        assert len(plot_text(chart, 80, color=False).splitlines()) > 10


def test_the_renderers_are_imported_without_what_draws() -> None:
    code = (
        "import sys, netgain.report.terminal, netgain.report.page, netgain.report.json_form;"
        "print([m for m in ('rich', 'plotly', 'plotext', 'torch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


NAMED = Table(
    "named",
    "Named",
    (
        Column("arm", "arm"),
        *(Column(f"c{i}", f"{i}th prefill column", "tokens", Basis.MEASURED) for i in range(7)),
    ),
    tuple(
        {"arm": "cache on, warm in device memory", **{f"c{i}": 3200 for i in range(7)}}
        for _ in range(2)
    ),
)


@pytest.mark.parametrize("width", range(60, 130, 7))
def test_a_table_with_words_and_many_numbers_keeps_to_the_width(width: int) -> None:
    text = report_text(_report(NAMED), width=width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert text.count("3,200 tokens") == 14


INTERVALS = Table(
    "intervals",
    "Intervals",
    (
        Column("latency", ""),
        Column("p50", "p50", "s", Basis.MEASURED, bounds=("p50_low_s", "p50_high_s")),
    ),
    (
        {"latency": "TTFT", "p50_low_s": 0.15, "p50_high_s": 0.1524},
        {"latency": "TPOT", "p50_low_s": 0.02},
        {"latency": "E2E", "p50_high_s": 1.5},
        {"latency": "ITL"},
    ),
)


def test_an_interval_is_one_compact_column() -> None:
    lines = report_text(_report(INTERVALS), width=60).splitlines()
    shown = {line.split()[0]: line.split(maxsplit=1)[1] for line in lines[-4:]}
    assert shown == {"TTFT": "150–152 ms", "TPOT": "≥ 20 ms", "E2E": "≤ 1.5 s", "ITL": "–"}  # noqa: RUF001


def test_a_figure_shows_its_interval_where_there_is_room() -> None:
    figure = Figure(
        "rate", "rate", 6.6, "requests/s", Basis.MEASURED, interval=Interval(5.09, 8.125)
    )
    report = Report("t", (Section("s", figures=(figure,)),))
    assert "[5.09–8.12 requests/s]" in report_text(report, width=80)  # noqa: RUF001
    narrow = report_text(report, width=40)
    assert "[" not in narrow
    assert "6.6 requests/s" in narrow


def test_rows_of_one_name_are_told_apart_in_every_block_of_a_wide_table() -> None:
    columns = (Column("phase", "Phase"), Column("load", "Load"), *WIDE.columns[1:])
    rows = tuple(
        {"phase": "decode", "load": f"batch {size}", **{f"c{i}": size for i in range(12)}}
        for size in (1, 8)
    )
    text = report_text(_report(Table("wide", "Wide", columns, rows)), width=60)
    lines = [line for line in text.splitlines() if line.startswith("decode")]
    assert len(lines) > 2
    assert all("batch 1" in line or "batch 8" in line for line in lines)


def test_a_section_of_charts_alone_has_no_heading_where_nothing_is_drawn() -> None:
    report = Report("t", (Section("Curves", charts=(CDF,)),))
    assert "Curves" not in report_text(report)
    assert "Curves" in report_text(report, plot=True)
