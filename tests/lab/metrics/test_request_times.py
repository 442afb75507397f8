"""The latencies of single requests, worked out on paper."""

import math

import pytest

from netgain.lab.metrics.columns import RequestColumns
from netgain.lab.metrics.request_times import RequestTimes
from netgain.lab.record import ErrorKind, RequestRecord, TokenCounting
from netgain.lab.run_header import LoadKind
from tests.lab.queues import header
from tests.lab.scripts import answer


def times_of(record: RequestRecord, load: LoadKind = LoadKind.OPEN) -> dict[str, float]:
    times = RequestTimes.of(RequestColumns.of(header(load), [record]))
    return {name: float(getattr(times, name)[0]) for name in RequestTimes.__slots__}


def test_open_loop_counts_from_the_intended_time_and_closed_loop_from_the_send() -> None:
    late = answer(0, [(300, 1), (400, 1)], intended=100, sent=150)
    for load in (LoadKind.OPEN, LoadKind.REPLAY):
        times = times_of(late, load)
        assert times["ttft"] == pytest.approx(0.200)
        assert times["e2e"] == pytest.approx(0.300)
    closed = times_of(late, LoadKind.CLOSED)
    assert closed["ttft"] == pytest.approx(0.150)
    assert closed["e2e"] == pytest.approx(0.250)


def test_both_clocks_are_kept() -> None:
    times = times_of(answer(0, [(300, 1), (400, 1)], intended=100, sent=150))
    assert times["ttft_from_sent"] == pytest.approx(0.150)
    assert times["e2e_from_sent"] == pytest.approx(0.250)
    assert times["client_queueing"] == pytest.approx(0.050)


def test_an_event_with_only_a_role_is_not_the_first_token() -> None:
    assert times_of(answer(0, [(220, 1)], role=90))["ttft"] == pytest.approx(0.220)


def test_an_empty_last_event_and_the_end_of_the_stream_are_not_the_last_token() -> None:
    times = times_of(answer(0, [(100, 1), (200, 1)], finish=300, end=400))
    assert times["e2e"] == pytest.approx(0.200)


def test_reasoning_is_a_first_token_and_its_answer_has_a_time_of_its_own() -> None:
    times = times_of(answer(0, [(100, 1), (200, 1), (700, 1)], reasoning=2))
    assert times["ttft"] == pytest.approx(0.100)
    assert times["ttfo"] == pytest.approx(0.700)


def test_tpot_divides_by_the_tokens_after_the_first() -> None:
    # Four tokens in two events: (500 - 200) / (4 - 1).
    assert times_of(answer(0, [(200, 1), (500, 3)]))["tpot"] == pytest.approx(0.100)


def test_an_answer_in_one_piece_has_no_tpot() -> None:
    times = times_of(answer(0, [(200, 8)]))
    assert times["ttft"] == times["e2e"] == pytest.approx(0.200)
    assert math.isnan(times["tpot"])


def test_a_one_token_answer_has_no_tpot() -> None:
    times = times_of(answer(0, [(200, 1)]))
    assert math.isnan(times["tpot"])
    assert times["normalised"] == pytest.approx(0.200)


def test_normalised_latency_is_e2e_over_all_tokens() -> None:
    assert times_of(answer(0, [(200, 1), (500, 3)]))["normalised"] == pytest.approx(0.125)


def test_a_failed_request_has_no_latency_but_its_client_queueing_counts() -> None:
    times = times_of(answer(0, [(200, 1), (300, 1)], sent=20, failure=ErrorKind.DISCONNECTED))
    assert times.pop("client_queueing") == pytest.approx(0.020)
    assert all(math.isnan(value) for value in times.values())


def test_an_answer_without_tokens_has_no_latency() -> None:
    times = times_of(answer(0, [], role=100, finish=150))
    assert math.isnan(times["ttft"])
    assert math.isnan(times["e2e"])
    assert math.isnan(times["normalised"])


def test_usage_replaces_a_count_of_mere_events() -> None:
    # Three events, nine tokens by the server: (300 - 100) / (9 - 1).
    record = answer(0, [(100, 1), (200, 1), (300, 1)], usage=9, counting=TokenCounting.EVENTS)
    assert times_of(record)["tpot"] == pytest.approx(0.025)


def test_a_usage_that_claims_fewer_tokens_than_events_is_not_believed() -> None:
    record = answer(0, [(100, 1), (200, 1), (300, 1)], usage=1, counting=TokenCounting.EVENTS)
    assert times_of(record)["tpot"] == pytest.approx(0.100)


def test_a_lying_usage_does_not_touch_what_the_client_counted() -> None:
    record = answer(0, [(100, 1), (200, 1), (300, 1)], usage=900)
    assert times_of(record)["tpot"] == pytest.approx(0.100)
