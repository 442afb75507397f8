"""One script, read as three other tools would: every number worked out on paper.

Times in ms. Three requests are answered, one fails:

    0  sent 0     role 90, tokens 1 at 100, 1 at 120, 2 at 160, empty end 170, closed 180   n 4
    1  sent 50    (intended 40) one token at 250                                            n 1
    2  sent 300   reasoning at 400 and 410, an answer token at 500; two events at 410       n 4
    3  sent 400   one token at 450, then the connection broke at 600
"""

import math

import pytest

from netgain.lab.foreign.result import ForeignResult, Tool
from netgain.lab.foreign.tools import as_tool
from netgain.lab.record import ErrorKind, RequestRecord, TokenCounting
from netgain.lab.run_header import LoadKind
from netgain.lab.slo import Limit, Objective, ServiceLevel
from tests.lab.queues import header
from tests.lab.scripts import answer

RECORDS = [
    answer(0, [(100, 1), (120, 1), (160, 2)], role=90, finish=170, end=180, prompt=100, usage=4),
    answer(1, [(250, 1)], intended=40, sent=50, prompt=200, usage=1),
    answer(
        2,
        [(400, 1), (410, 1), (410, 1), (500, 1)],
        intended=300,
        reasoning=3,
        prompt=50,
        usage=4,
    ),
    answer(3, [(450, 1)], intended=400, end=600, failure=ErrorKind.DISCONNECTED),
]
SLO = ServiceLevel((Limit(Objective.TTFT, 0.15), Limit(Objective.TPOT, 0.03)))


def read_as(
    tool: Tool, records: list[RequestRecord] = RECORDS, slo: ServiceLevel | None = SLO
) -> ForeignResult:
    return as_tool(tool, header(LoadKind.OPEN, duration_s=0.5), records, slo)


def check(result: ForeignResult, expected: dict[str, float | None]) -> None:
    found = {key: result.values[key] for key in expected}
    assert found == pytest.approx(expected)


def test_vllm() -> None:
    """TTFT 90, 200, 100; E2EL 170, 200, 200; ITL 10 20 40 10 | 10 0 90."""
    tpot = [80 / 3, 100 / 3]
    check(
        read_as(Tool.VLLM),
        {
            "completed": 3,
            "failed": 1,
            "duration": 0.6,
            "total_input_tokens": 350,
            "total_output_tokens": 9,
            "request_throughput": 3 / 0.6,
            "output_throughput": 9 / 0.6,
            "total_token_throughput": 359 / 0.6,
            # TTFT at most 150 ms and TPOT at most 30 ms: the first; the second is late.
            "request_goodput": 1 / 0.6,
            "mean_ttft_ms": 130,
            "median_ttft_ms": 100,
            "std_ttft_ms": math.sqrt((40**2 + 70**2 + 30**2) / 3),
            "p99_ttft_ms": 198,
            "mean_e2el_ms": 190,
            "median_e2el_ms": 200,
            "p99_e2el_ms": 200,
            "mean_tpot_ms": sum(tpot) / 2,
            "median_tpot_ms": sum(tpot) / 2,
            "p99_tpot_ms": tpot[0] + 0.99 * (tpot[1] - tpot[0]),
            "mean_itl_ms": 180 / 7,
            "median_itl_ms": 10,
            "p99_itl_ms": 40 + 0.94 * 50,
            # All ten events with choices of answered requests lie within a second.
            "max_output_tokens_per_s": 10,
            "max_concurrent_requests": 2,
        },
    )


def test_vllm_lets_a_one_token_answer_pass_its_tpot() -> None:
    level = ServiceLevel((Limit(Objective.TPOT, 0.001),))
    assert read_as(Tool.VLLM, slo=level).values["request_goodput"] == pytest.approx(1 / 0.6)


def test_vllm_counts_empty_events_that_came_with_another_as_gaps_of_0() -> None:
    # The role came with the first token, the empty end with the last: five events in all.
    record = answer(0, [(100, 1), (110, 1), (130, 1)], role=100, finish=130, usage=3)
    check(
        read_as(Tool.VLLM, [record]),
        {"mean_itl_ms": 30 / 4, "median_itl_ms": 5, "max_output_tokens_per_s": 5},
    )


def test_vllm_believes_the_usage_even_when_it_lies() -> None:
    record = answer(0, [(100, 1), (200, 1)], usage=101)
    check(read_as(Tool.VLLM, [record]), {"mean_tpot_ms": 1.0, "total_output_tokens": 101})


def test_guidellm() -> None:
    """Latency 180, 200, 200; TTFT 100, 200, 100; TPOT 160/4, 200/1, 200/4; ITL 60/3, -, 100/3."""
    result = read_as(Tool.GUIDELLM)
    check(
        result,
        {
            "request_totals.successful": 3,
            "request_totals.incomplete": 0,
            "request_totals.errored": 1,
            "request_latency.mean": 0.58 / 3,
            "request_latency.median": 0.2,
            "request_latency.p95": 0.2,
            "time_to_first_token_ms.mean": 400 / 3,
            "time_to_first_token_ms.median": 100,
            "time_to_first_token_ms.p99": 200,
            # The answer after the reasoning: 100, 200, 200.
            "time_to_first_output_token_ms.mean": 500 / 3,
            # By tokens: 40 four times, 200 once, 50 four times.
            "time_per_output_token_ms.mean": (160 + 200 + 200) / 9,
            "time_per_output_token_ms.median": 50,
            "time_per_output_token_ms.p95": 200,
            # By token gaps: 20 three times, 100/3 three times; the one-token answer weighs 0.
            "inter_token_latency_ms.mean": 160 / 6,
            "inter_token_latency_ms.median": 20,
            "inter_token_latency_ms.p95": 100 / 3,
            "inter_token_latency_ms.std_dev": (100 / 3 - 20) / 2,
            # Everyone counts, the failed one too; the run ends with it.
            "requests_per_second.mean": 4 / 0.6,
            "request_concurrency.mean": (180 + 200 + 200 + 200) / 600,
            # 0-50 one, 50-180 two, 180-250 one, 250-300 none, 300-400 one, 400-500 two, -600 one.
            "request_concurrency.median": 1,
            # Tokens of everyone over the whole run: 4 + 1 + 4 + 1, and the prompts.
            "output_tokens_per_second.mean": 10 / 0.6,
            "prompt_tokens_per_second.mean": 360 / 0.6,
            "tokens_per_second.mean": 370 / 0.6,
        },
    )
    assert "goodput" in result.missing


def test_guidellm_takes_the_value_below_and_counts_a_missing_first_token_as_0() -> None:
    records = [answer(i, [(100 * (i + 1), 1)], usage=1) for i in range(4)]
    records.append(answer(4, [], role=10, finish=20))
    check(
        read_as(Tool.GUIDELLM, records),
        {
            "time_to_first_token_ms.mean": 200,
            "time_to_first_token_ms.median": 200,
            "time_to_first_token_ms.p95": 400,
            "inter_token_latency_ms.mean": 0,
        },
    )


def test_guidellm_without_usage_takes_an_event_for_a_token() -> None:
    record = answer(0, [(100, 5), (300, 5)])
    check(read_as(Tool.GUIDELLM, [record]), {"inter_token_latency_ms.mean": 200})


def test_guidellm_calls_a_request_cut_off_at_the_end_incomplete() -> None:
    records = [*RECORDS, answer(4, [], intended=450, end=600, failure=ErrorKind.CANCELLED)]
    check(
        read_as(Tool.GUIDELLM, records),
        {"request_totals.incomplete": 1, "request_totals.errored": 1},
    )


def test_aiperf() -> None:
    """TTFT 100, 200, 100; latency 160, 200, 200; ITL 60/3, -, 100/3; ICL 20 40 only."""
    itl = [20, 100 / 3]
    check(
        read_as(Tool.AIPERF),
        {
            "request_count": 3,
            "error_request_count": 1,
            "benchmark_duration": 0.5,
            "request_throughput": 6,
            "output_token_throughput": 18,
            "goodput": 1 / 0.5,
            "time_to_first_token.avg": 400 / 3,
            "time_to_first_token.p50": 100,
            "time_to_first_token.p99": 198,
            "time_to_first_token.min": 100,
            "time_to_first_token.max": 200,
            "time_to_second_token.avg": 15,
            "request_latency.avg": 560 / 3,
            "request_latency.p90": 200,
            "inter_token_latency.avg": sum(itl) / 2,
            "inter_token_latency.p99": itl[0] + 0.99 * (itl[1] - itl[0]),
            "inter_token_latency.std": (itl[1] - itl[0]) / 2,
            "output_token_throughput_per_user.avg": (50 + 30) / 2,
            # The third request has two events at one time, which AIPerf refuses.
            "inter_chunk_latency.avg": 30,
            "output_sequence_length.avg": 3,
            "input_sequence_length.avg": 350 / 3,
        },
    )


def test_aiperf_finds_a_request_without_the_metric_not_good() -> None:
    level = ServiceLevel((Limit(Objective.TPOT, 10.0),))
    assert read_as(Tool.AIPERF, slo=level).values["goodput"] == pytest.approx(2 / 0.5)


def test_aiperf_counts_for_itself_and_says_when_netgain_could_not() -> None:
    counted = answer(0, [(100, 1), (200, 1)], usage=101)
    check(read_as(Tool.AIPERF, [counted]), {"inter_token_latency.avg": 100})
    by_usage = answer(0, [(100, 1), (200, 1)], usage=2, counting=TokenCounting.USAGE)
    assert any("tokenising" in text for text in read_as(Tool.AIPERF, [by_usage]).definitions)


@pytest.mark.parametrize("tool", Tool)
def test_clock_zero_is_the_send_for_every_tool(tool: Tool) -> None:
    late = answer(0, [(300, 1)], intended=100, sent=200, usage=1)
    keys = {
        Tool.VLLM: "mean_ttft_ms",
        Tool.GUIDELLM: "time_to_first_token_ms.mean",
        Tool.AIPERF: "time_to_first_token.avg",
    }
    assert read_as(tool, [late]).values[keys[tool]] == pytest.approx(100)


@pytest.mark.parametrize("tool", Tool)
def test_what_cannot_be_derived_says_so(tool: Tool) -> None:
    result = read_as(tool, slo=None)
    for key, value in result.values.items():
        if value is None and not key.startswith("inter_"):
            assert key in result.missing
    assert all(reason in "".join(result.section().text) for reason in result.missing.values())


@pytest.mark.parametrize("tool", Tool)
@pytest.mark.parametrize("records", [[], [answer(0, [], failure=ErrorKind.CONNECT)]])
def test_a_run_without_an_answer_has_a_table_all_the_same(
    tool: Tool, records: list[RequestRecord]
) -> None:
    assert read_as(tool, records).section().tables
