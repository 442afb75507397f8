"""What the bench report says, and when it warns."""

import math

import msgspec
import pytest

from netgain.lab.bench_report import bench_report, report_of
from netgain.lab.foreign.result import Tool
from netgain.lab.latency_table import MAIN
from netgain.lab.load_plan import Ended
from netgain.lab.metrics.run_metrics import Latency, measure_run
from netgain.lab.record import ErrorKind, RequestRecord
from netgain.lab.request_rows import REQUEST_COLUMNS, request_rows
from netgain.lab.run_end import RunEnd
from netgain.lab.run_header import CacheState, LoadKind
from netgain.lab.slo import Limit, Objective, ServiceLevel
from netgain.report.document import Basis, Mark, Report, Table
from netgain.report.terminal import report_text
from tests.lab.queues import answered, header, poisson_run
from tests.lab.scripts import answer
from tests.lab.test_client_vs_ledger import with_ledger

LEVEL = ServiceLevel((Limit(Objective.TTFT, 0.5),), 0.9)


def steady(slo: ServiceLevel | None = None, tool: Tool | None = None) -> Report:
    return bench_report(*poisson_run(10, 60, seed=2), slo=slo, tool=tool)


def table(report: Report, name: str) -> Table:
    return next(t for s in report.sections for t in s.tables if t.name == name)


def warned(report: Report, word: str) -> bool:
    return any(word in warning for warning in report.warnings)


def test_a_sound_run_is_told_without_a_warning() -> None:
    report = steady(LEVEL)
    assert report.warnings == ()
    assert report.verdict[0].startswith("The SLO was met")
    assert "output tokens/s" in report.verdict[-1]


def test_the_latency_table_has_percentiles_with_counts_and_intervals() -> None:
    run, report = measure_run(*poisson_run(10, 60, seed=2)), steady()
    felt, other = (table(report, name).rows for name in ("latency", "latency_other"))
    rows = {row["key"]: row for row in (*felt, *other)}
    assert set(rows) == {latency.value for latency in run.metrics.latency}
    assert {row["key"] for row in felt} == {latency.value for latency in MAIN}
    ttft = run.metrics.latency[Latency.TTFT]
    assert rows["ttft"]["n"] == ttft.n
    assert rows["ttft"]["p99_s"] == ttft.p99.value
    for p in (50, 90, 95, 99):
        found = ttft.percentiles[p]
        assert (rows["ttft"][f"p{p}_low_s"], rows["ttft"][f"p{p}_high_s"]) == (
            found.low,
            found.high,
        )


def test_figures_are_the_metrics() -> None:
    report, metrics = steady(LEVEL), measure_run(*poisson_run(10, 60, seed=2), slo=LEVEL).metrics
    assert metrics.goodput is not None
    assert report.figure("requests").value == metrics.requests
    assert report.figure("output_tokens_per_s").value == metrics.throughput.output_tokens.value
    assert report.figure("attainment").value == metrics.goodput.attainment.value
    assert [row["limit"] for row in table(report, "attainment").rows] == ["ttft", "all together"]


def test_a_saturated_run_says_so_first_and_calls_its_percentiles_lower_bounds() -> None:
    report = bench_report(*poisson_run(40, 60, seed=0))
    assert report.verdict[0].startswith("Saturated")
    assert "TTFT p50 at least" in report.verdict[-1]
    latency = next(s for s in report.sections if s.heading == "Latency")
    assert "lower bound" in latency.text[0]
    assert warned(report, "queue grew")


def test_an_invalid_run_says_so_first() -> None:
    records = [answered(i, i / 10, [i / 10 + 1], sent_s=i / 10 + 0.1) for i in range(200)]
    report = bench_report(header(duration_s=20), records)
    assert report.verdict[0].startswith("Invalid")
    assert warned(report, "generator sent late")


def test_few_requests_and_an_undeclared_cache_are_warned_of() -> None:
    records = [answered(i, i / 10, [i / 10 + 0.1]) for i in range(50)]
    report = bench_report(header(duration_s=5, cache=CacheState.UNDECLARED), records)
    assert warned(report, "tails are guesses")
    assert warned(report, "not declared")


def test_a_cold_cache_that_hits_is_warned_of() -> None:
    records = [
        answer(i, [(i * 100 + 100, 1)], intended=i * 100, usage=1, cached=8) for i in range(150)
    ]
    assert warned(bench_report(header(duration_s=15), records), "Declared cold")


def test_requests_the_generator_could_not_send_make_a_run_invalid() -> None:
    _, records = poisson_run(10, 60, seed=2)
    unsent = answer(len(records), [], intended=30_000, failure=ErrorKind.GENERATOR)
    report = bench_report(header(), [*records, unsent])
    assert report.verdict[0].startswith("Invalid: the load generator could not send")


def test_a_trend_that_cannot_be_computed_is_not_printed_as_a_number() -> None:
    late = [answer(i, [], intended=i * 100, failure=ErrorKind.TIMEOUT) for i in range(150)]
    report = bench_report(header(duration_s=15), late)
    course = next(s for s in report.sections if s.heading == "Course of the run")
    assert "too few answers" in course.text[0]
    assert "nan" not in course.text[0]


def ended(cache_held: bool | None, reason: str = "") -> RunEnd:
    return RunEnd(
        ended=Ended.SERVER_GONE if reason else Ended.COMPLETE,
        reason=reason,
        cache_held=cache_held,
        cache_text="NOT cold: 9 of 10",
        notes=("3 lines left out",),
    )


def test_hits_that_the_run_itself_explains_are_no_doubt() -> None:
    records = [
        answer(i, [(i * 100 + 100, 1)], intended=i * 100, usage=1, cached=8) for i in range(150)
    ]
    run = measure_run(header(duration_s=15), records)
    assert not warned(report_of(run, None, ended(True)), "cold")
    assert warned(report_of(run, None, ended(None)), "Declared cold")
    refuted = report_of(run, None, ended(False)).warnings
    assert sum("cold" in warning for warning in refuted) == 1
    assert "Cache NOT cold: 9 of 10." in refuted


def test_how_the_run_ended_comes_before_every_other_doubt() -> None:
    run = measure_run(header(), [answer(0, [(100, 1)])])
    report = report_of(run, None, ended(None, "nobody answers"))
    assert report.warnings[0] == "The run ended early (server gone): nobody answers."
    assert report.sections[-1].text == ("3 lines left out",)


def test_time_outs_make_percentiles_lower_bounds() -> None:
    late = [answer(i, [], intended=i * 1000, failure=ErrorKind.TIMEOUT) for i in range(50)]
    _, records = poisson_run(10, 60, seed=2)
    report = bench_report(header(), [*records, *late])
    assert warned(report, "timed out or were cut off")
    assert table(report, "failures").rows[0]["kind"] == "timeout"


def test_answers_in_one_piece_are_warned_of() -> None:
    whole = [answer(i, [(100, 8)]) for i in range(3)]
    assert warned(bench_report(header(), [*whole, answer(3, [(100, 1)])]), "3 of 4 answers came in")


def test_every_number_says_what_it_is() -> None:
    report = bench_report(*poisson_run(10, 60, seed=2), slo=LEVEL, tool=Tool.VLLM)
    given = {"n", "at_most_s", "applies", "demanded", "good_enough_s"}
    for section in report.sections:
        assert all(figure.basis is Basis.MEASURED for figure in section.figures)
        for one in section.tables:
            for column in one.columns:
                numbers = {type(row.get(key)) for row in one.rows for key in column.keys}
                if numbers & {int, float} and column.key not in given:
                    assert column.basis is Basis.MEASURED, (one.name, column.key)


def test_what_the_server_does_not_tell_is_said_to_be_not_available() -> None:
    said = " ".join(text for section in steady().sections for text in section.text)
    assert "Cache hits by request: not available" in said
    assert "By stage: not available" in said


def test_the_report_fits_a_hundred_columns_with_one_line_a_latency() -> None:
    lines = report_text(steady(LEVEL), width=100).splitlines()
    assert max(len(line) for line in lines) <= 100
    assert sum(line.startswith("ITL, request means ") for line in lines) == 2


def test_a_floor_that_is_reached_says_that_faster_earns_nothing() -> None:
    level = ServiceLevel((Limit(Objective.TTFT, 0.5, good_enough_s=0.4),), 0.9)
    section = next(s for s in steady(level).sections if s.heading == "Service level")
    assert any("ttft is good enough" in text for text in section.text)
    unreached = ServiceLevel((Limit(Objective.TTFT, 0.5, good_enough_s=0.01),), 0.9)
    section = next(s for s in steady(unreached).sections if s.heading == "Service level")
    assert not any("good enough" in text for text in section.text)


def test_what_else_the_slo_asks_is_not_passed_over() -> None:
    level = ServiceLevel(LEVEL.limits, 0.9, concurrency=4, peak_factor=5.0)
    section = next(s for s in steady(level).sections if s.heading == "Service level")
    assert any("--concurrency 4" in text for text in section.text)
    assert any("--arrivals step:5" in text for text in section.text)


def test_usage_that_contradicts_the_stream_is_warned_of() -> None:
    chunks = [(i * 10, 1) for i in range(1, 21)]
    records = [answer(i, chunks, usage=100) for i in range(3)]
    assert warned(bench_report(header(), records), "usage contradicts the stream")


def test_a_run_of_failures_says_that_nothing_was_answered() -> None:
    report = bench_report(header(), [answer(0, [], failure=ErrorKind.CONNECT)])
    assert report.verdict == ("None of 1 requests was answered.",)
    assert bench_report(header(), []).sections


def test_charts_show_distributions_the_course_and_single_requests() -> None:
    charts = {c.name: c for s in steady().sections for c in s.charts}
    assert set(charts) == {
        "latency_cdf",
        "throughput_over_time",
        "answers_over_time",
        "outstanding_over_time",
        "ttft_over_time",
        "timeline",
    }
    assert [s.name for s in charts["latency_cdf"].series] == ["TTFT", "ITL", "E2E"]
    for chart in charts.values():
        for series in chart.series:
            assert len(series.x) == len(series.y)
            assert all(math.isfinite(x) for x in series.x if isinstance(x, float))


def test_tokens_in_the_throughput_chart_add_up_to_all_tokens() -> None:
    run = measure_run(*poisson_run(10, 60, seed=2))
    charts = {c.name: c for s in steady().sections for c in s.charts}
    series = charts["throughput_over_time"].series[0]
    assert isinstance(series.x[1], float)
    total = sum(y for y in series.y if isinstance(y, float)) * series.x[1]
    assert total == pytest.approx(run.columns.event_tokens.sum())


def test_the_timeline_shows_the_clients_stages_without_a_ledger() -> None:
    record = answer(0, [(300, 1), (500, 1)], intended=100, sent=150)
    charts = [c for s in bench_report(header(), [record]).sections for c in s.charts]
    spans = next(c for c in charts if c.name == "timeline").series
    shown = {s.name: (s.x[0], s.x_end[0]) for s in spans}
    assert shown == {
        "client queue": (0.1, 0.15),
        "wait for first token": (0.15, 0.3),
        "stream": (0.3, 0.5),
    }
    assert all(s.mark is Mark.SPANS for s in spans)


def test_with_a_ledger_its_stages_are_shown_and_the_rest_has_its_own_line() -> None:
    record = with_ledger(answer(0, [(50, 1), (105, 1)]), 0.1, 0.048)
    report = bench_report(header(), [record])
    spans = next(c for s in report.sections for c in s.charts if c.name == "timeline").series
    assert [s.name for s in spans] == ["queue", "prefill", "decode"]
    # Half of the two milliseconds that TTFT takes longer at the client lie before the server.
    assert spans[0].x[0] == pytest.approx(0.001)
    assert report.figure("network_and_client_ttft_p50_s").value == pytest.approx(0.002)
    assert report.figure("network_and_client_e2e_p50_s").value == pytest.approx(0.005)
    stages = {row["stage"]: row["mean_s"] for row in table(report, "stages").rows}
    assert stages["network and client"] == pytest.approx(0.005)


@pytest.mark.parametrize("tool", Tool)
def test_another_tools_numbers_stand_in_a_section_of_their_own(tool: Tool) -> None:
    assert steady(tool=tool).sections[-1].heading == f"As {tool.value} defines it"


def test_classes_have_tables_of_their_own() -> None:
    records = [
        answer(i, [(i * 50 + 80, 1)], intended=i * 50, request_class="rag" if i % 2 else "chat")
        for i in range(100)
    ]
    report = bench_report(header(duration_s=5), records)
    assert [row["class"] for row in table(report, "classes").rows] == ["chat", "rag"]
    assert table(report, "latency_rag").rows


def test_a_report_is_made_of_plain_data() -> None:
    encoded = msgspec.json.encode(steady(LEVEL, Tool.VLLM))
    assert b"NaN" not in encoded


def test_every_request_is_a_row() -> None:
    records: list[RequestRecord] = [
        answer(0, [(100, 1), (200, 3)], usage=4, cached=5),
        answer(1, [], intended=300, failure=ErrorKind.REFUSED),
    ]
    rows = list(request_rows(measure_run(header(LoadKind.OPEN), records)))
    assert all(tuple(row) == REQUEST_COLUMNS for row in rows)
    assert rows[0]["ttft_s"] == pytest.approx(0.1)
    assert rows[0]["itl_mean_s"] == pytest.approx(0.1 / 3)
    assert (rows[0]["output_tokens"], rows[0]["cached_tokens"]) == (4, 5)
    assert (rows[1]["error"], rows[1]["ttft_s"]) == ("refused", None)
