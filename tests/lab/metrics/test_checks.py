"""Checks of the run itself: lag, Little's law, saturation, token counts."""

from itertools import takewhile

import msgspec
import numpy as np
import pytest

from netgain.lab.arrivals import Ramp
from netgain.lab.metrics.columns import RequestColumns
from netgain.lab.metrics.lag import Lag
from netgain.lab.metrics.outstanding import Outstanding
from netgain.lab.metrics.run_metrics import run_metrics
from netgain.lab.metrics.saturation import Load
from netgain.lab.metrics.token_counts import TokenCounts
from netgain.lab.metrics.trimming import Trim, TrimKind, TrimRule
from netgain.lab.record import ErrorKind, RequestRecord, TokenCounting
from netgain.lab.run_header import LoadKind, RunHeader
from tests.lab.queues import answered, header, poisson_run
from tests.lab.scripts import answer

WHOLE = TrimRule(Trim(TrimKind.NONE), Trim(TrimKind.NONE))


def test_lag_is_held_against_e2e_in_the_mean_and_in_the_tail() -> None:
    e2e_s = np.full(100, 1.0)
    fine = Lag.of(LoadKind.OPEN, np.full(100, 0.0099), e2e_s)
    assert fine is not None
    assert (fine.of_mean, fine.of_p99) == pytest.approx((0.0099, 0.0099))
    assert fine.valid
    late = Lag.of(LoadKind.OPEN, np.full(100, 0.0101), e2e_s)
    assert late is not None
    assert not late.valid
    stalled = Lag.of(LoadKind.OPEN, np.where(np.arange(100) < 5, 0.1, 0.0), e2e_s)
    assert stalled is not None
    assert stalled.of_mean == pytest.approx(0.005)
    assert not stalled.valid


def test_a_closed_loops_lag_spoils_nothing() -> None:
    lag = Lag.of(LoadKind.CLOSED, np.full(10, 0.5), np.full(10, 1.0))
    assert lag is not None
    assert lag.valid


def test_what_was_never_sent_has_no_lag_and_what_failed_no_e2e() -> None:
    nothing = np.array([np.nan])
    assert Lag.of(LoadKind.OPEN, nothing, nothing) is None
    lag = Lag.of(LoadKind.OPEN, np.array([0.25, 0.0, np.nan]), np.array([np.nan, 2.0, np.nan]))
    assert lag is not None
    assert (lag.n, lag.mean_s, lag.of_mean) == (2, 0.125, 0.0625)


def test_a_run_whose_generator_lagged_is_invalid() -> None:
    records = [answered(i, i / 10, [i / 10 + 1.0], sent_s=i / 10 + 0.05) for i in range(100)]
    assert not run_metrics(header(duration_s=10), records).valid


def test_outstanding_counts_requests_between_start_and_end() -> None:
    under_way = Outstanding.of(np.array([0.0, 1.0, np.nan]), np.array([2.0, 4.0, 9.0]))
    assert under_way.at(np.array([0.0, 1.5, 2.0, 3.9, 4.0])).tolist() == [1, 2, 1, 1, 0]
    # 1 for a second, 2 for another; then 1 for two seconds.
    assert under_way.mean_between(np.array([0.0, 2.0, 4.0])).tolist() == [1.5, 1.0]


def closed_loop(clients: int, each_s: float, duration_s: float) -> list[RequestRecord]:
    rounds = int(duration_s / each_s)
    return [
        answered(c * rounds + k, k * each_s, [(k + 1) * each_s])
        for c in range(clients)
        for k in range(rounds)
    ]


def test_a_closed_loop_keeps_littles_law() -> None:
    run = header(LoadKind.CLOSED, 20, concurrency=4)
    law = run_metrics(run, closed_loop(4, 0.5, 20), trim=WHOLE).littles_law
    assert law is not None
    assert law.time_s == pytest.approx(0.5)
    assert law.rate == pytest.approx(8, rel=0.03)
    assert law.expected == 4
    assert law.holds


def test_clients_that_idle_break_littles_law() -> None:
    run = header(LoadKind.CLOSED, 20, concurrency=8)
    law = run_metrics(run, closed_loop(4, 0.5, 20), trim=WHOLE).littles_law
    assert law is not None
    assert not law.holds


def test_clients_that_think_between_turns_are_not_missing() -> None:
    # Four clients; each conversation is two turns of half a second, one and a half to think.
    starts = [(client, k, 2.5 * k + 0.6 * client) for client in range(4) for k in range(8)]
    records = [
        answered(
            2 * (client * 8 + k) + turn,
            start_s + 2.0 * turn,
            [start_s + 2.0 * turn + 0.5],
            conversation=client * 8 + k,
            turn=turn,
        )
        for client, k, start_s in starts
        for turn in range(2)
    ]
    run = header(LoadKind.CLOSED, 19.9, concurrency=4)
    inner = TrimRule(Trim(TrimKind.SECONDS, 2.45), Trim(TrimKind.SECONDS, 2.45))
    law = run_metrics(run, records, trim=inner).littles_law
    assert law is not None
    assert law.thinking == pytest.approx(4 * 1.5 / 2.5)
    assert law.expected == pytest.approx(4 * 1.0 / 2.5)
    assert law.holds


def test_an_open_loop_is_held_to_the_requests_really_under_way() -> None:
    law = run_metrics(*poisson_run(10, 120, seed=1)).littles_law
    assert law is not None
    assert law.clients is None
    assert law.holds


def load_of(rate: float, seconds: float, seed: int) -> Load:
    return run_metrics(*poisson_run(rate, seconds, seed)).saturation.load


def test_a_server_at_seventy_percent_of_its_capacity_is_steady() -> None:
    assert [load_of(14, 60, seed) for seed in range(5)] == [Load.STEADY] * 5


def test_a_server_at_one_and_a_half_times_its_capacity_is_saturated() -> None:
    assert [load_of(30, 60, seed) for seed in range(5)] == [Load.SATURATED] * 5


def test_a_little_above_capacity_a_long_run_tells_and_a_short_one_does_not_call_it_steady() -> None:
    assert load_of(22, 240, 7) is Load.SATURATED
    short = [load_of(22, 15, seed) for seed in range(12)]
    assert short.count(Load.STEADY) < len(short) / 2


def ramp_run(most_at_once: float) -> tuple[RunHeader, list[RequestRecord]]:
    """From 2 to 20 requests/s, each streams for 6 s; first tokens: at most so many a second."""
    ramp = Ramp(2, 20, 60.0)
    free_s, records = 0.0, []
    for index, start_s in enumerate(takewhile(lambda at_s: at_s < 60, ramp.offsets(1))):
        free_s = max(free_s, start_s) + 1 / most_at_once
        records.append(answered(index, start_s, [free_s + 0.1 * k for k in range(60)]))
    return msgspec.structs.replace(header(duration_s=60), arrivals=str(ramp)), records


def test_a_ramp_that_is_kept_up_with_is_no_saturation_though_more_are_under_way() -> None:
    found = run_metrics(*ramp_run(most_at_once=1000)).saturation
    assert found.growth > 50
    assert found.load is Load.STEADY


def test_a_ramp_beyond_capacity_is_saturation() -> None:
    assert run_metrics(*ramp_run(most_at_once=10)).saturation.load is Load.SATURATED


def test_saturation_shows_its_evidence() -> None:
    metrics = run_metrics(*poisson_run(40, 60, seed=0))
    found = metrics.saturation
    assert metrics.saturated
    # Twenty a second more than it serves, over three quarters of a minute.
    assert found.growth == pytest.approx(20 * metrics.window.length_s, rel=0.2)
    assert found.drift_chance < 0.001
    assert "grew by" in found.evidence


def test_a_saturated_server_whose_answers_never_came_is_seen_by_its_queue() -> None:
    run, records = poisson_run(40, 60, seed=0)
    cut = [
        r
        if r.end_s is not None and r.end_s < 60
        else answer(
            r.index,
            [],
            intended=round(r.intended_s * 1000),
            end=65_000,
            failure=ErrorKind.CANCELLED,
        )
        for r in records
    ]
    assert run_metrics(run, cut).saturated


def test_few_requests_tell_nothing_and_a_closed_loop_limits_itself() -> None:
    assert load_of(2, 10, 0) is Load.UNKNOWN
    run = header(LoadKind.CLOSED, 20, concurrency=4)
    assert run_metrics(run, closed_loop(4, 0.5, 20)).saturation.load is Load.SELF_LIMITED


def test_a_usage_far_from_the_clients_own_count_is_noticed() -> None:
    chunks = [(i * 10, 1) for i in range(1, 21)]
    counts = TokenCounts.of(
        [
            answer(0, chunks, usage=20),
            answer(1, chunks, usage=21),  # an end-of-sequence token
            answer(2, chunks, usage=40),
            answer(3, chunks, usage=5),
            answer(4, chunks),
            answer(5, chunks, usage=5, counting=TokenCounting.EVENTS),
            answer(6, chunks, usage=80, counting=TokenCounting.EVENTS),
        ],
        140,
    )
    assert counts.usage_wrong == 3
    assert counts.usage_missing == 1
    assert counts.spread == 1


def test_short_and_empty_answers_are_counted() -> None:
    counts = TokenCounts.of(
        [
            answer(0, [(10, 1), (20, 1)], max_tokens=2),
            answer(1, [(10, 1)], max_tokens=2),
            answer(2, [], role=5, finish=10, max_tokens=2),
            answer(3, [(10, 1)], failure=ErrorKind.TIMEOUT),
        ],
        3,
    )
    assert (counts.requests, counts.shorter, counts.empty) == (3, 1, 1)


def test_columns_keep_the_order_of_starts_whatever_order_records_were_written_in() -> None:
    records = [answer(1, [(500, 1)], intended=400), answer(0, [(200, 1)], intended=100)]
    columns = RequestColumns.of(header(), records)
    assert [r.index for r in columns.records] == [0, 1]
    assert columns.event_at_s.tolist() == [0.2, 0.5]
