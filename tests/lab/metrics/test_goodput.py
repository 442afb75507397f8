"""Goodput and attainment."""

import pytest

from netgain.lab.metrics.goodput import Goodput, Met
from netgain.lab.metrics.run_metrics import run_metrics
from netgain.lab.metrics.trimming import Trim, TrimKind, TrimRule
from netgain.lab.record import ErrorKind, RequestRecord
from netgain.lab.slo import Limit, Objective, ServiceLevel
from tests.lab.queues import header
from tests.lab.scripts import answer

WHOLE = TrimRule(Trim(TrimKind.NONE), Trim(TrimKind.NONE))


def goodput_of(records: list[RequestRecord], *limits: Limit, attainment: float = 0.9) -> Goodput:
    level = ServiceLevel(limits, attainment)
    found = run_metrics(header(duration_s=10), records, trim=WHOLE, slo=level).goodput
    assert found is not None
    return found


TTFT = Limit(Objective.TTFT, 0.2)
TPOT = Limit(Objective.TPOT, 0.05)
E2E = Limit(Objective.E2E, 1.0)


def test_a_request_is_good_only_when_it_met_every_limit() -> None:
    records = [
        answer(0, [(100, 1), (140, 1)]),  # meets both
        answer(1, [(100, 1), (190, 1)]),  # too slow a pace
        answer(2, [(300, 1), (310, 1)]),  # too late a start
        answer(3, [(9200, 1), (9250, 1)], intended=9000),  # exactly at both limits
    ]
    found = goodput_of(records, TTFT, TPOT)
    assert (found.good, found.requests) == (2, 4)
    assert found.rate.value == pytest.approx(0.2)
    assert found.attainment.value == 0.5
    assert [a.share.value for a in found.limits] == [0.75, 0.75]


def test_errors_time_outs_and_requests_cut_off_are_misses() -> None:
    chunks = [(100, 1), (140, 1)]
    kinds = (ErrorKind.TIMEOUT, ErrorKind.SERVER, ErrorKind.CANCELLED)
    failed = [answer(i + 1, chunks, failure=kind) for i, kind in enumerate(kinds)]
    found = goodput_of([answer(0, chunks), *failed], TTFT, TPOT)
    assert (found.good, found.requests) == (1, 4)
    assert [a.applies for a in found.limits] == [4, 4]


def test_a_one_token_answer_neither_passes_nor_fails_a_limit_on_pace() -> None:
    itl = Limit(Objective.ITL, 0.05)
    records = [answer(0, [(100, 1)]), answer(1, [(100, 1), (900, 1)])]
    found = goodput_of(records, TPOT, itl)
    assert [(a.applies, a.share.value) for a in found.limits] == [(1, 0.0), (1, 0.0)]
    assert found.good == 1


def test_an_answer_without_a_token_is_not_good() -> None:
    found = goodput_of([answer(0, [], role=10, finish=20)], TPOT)
    assert found.good == 0


def test_itl_asks_for_a_share_of_a_requests_own_gaps() -> None:
    # Twenty gaps: nineteen of 10 ms, one of 300 ms.
    chunks = [(i * 10, 1) for i in range(1, 21)] + [(500, 1)]
    strict = Limit(Objective.ITL, 0.05, of_tokens=0.96)
    assert goodput_of([answer(0, chunks)], Limit(Objective.ITL, 0.05, of_tokens=0.95)).good == 1
    assert goodput_of([answer(0, chunks)], strict).good == 0


def test_requests_that_started_outside_the_window_are_not_counted() -> None:
    rule = TrimRule(Trim.parse("1s"), Trim.parse("none"))
    records = [
        answer(0, [(5000, 1)], intended=500),
        answer(1, [(2100, 1)], intended=2000),
        answer(2, [(9100, 1)], intended=9000),
    ]
    metrics = run_metrics(header(duration_s=10), records, trim=rule, slo=ServiceLevel((TTFT,), 0.9))
    assert metrics.goodput is not None
    assert (metrics.goodput.good, metrics.goodput.requests) == (2, 2)
    assert metrics.goodput.rate.value == pytest.approx(2 / 9)
    assert metrics.goodput.late == (1, 1)


def level_met(good: int, bad: int, *limits: Limit) -> Met:
    records = [answer(i, [(i * 9 + 100, 1)], intended=i * 9) for i in range(good)] + [
        answer(good + i, [(at + 900, 1)], intended=at)
        for i, at in enumerate(range(0, good * 9, max(good * 9 // max(bad, 1), 1)))
        if i < bad
    ]
    return goodput_of(records, *limits).met


def test_a_level_is_met_or_missed_only_as_far_as_the_requests_can_tell() -> None:
    assert level_met(1000, 10, TTFT) is Met.YES
    assert level_met(700, 300, TTFT) is Met.NO
    assert level_met(19, 1, TTFT) is Met.UNCLEAR


def test_a_limits_own_share_must_be_met_too() -> None:
    assert level_met(960, 40, TTFT) is Met.YES
    assert level_met(960, 40, Limit(Objective.TTFT, 0.2, share=0.99)) is Met.NO


def test_the_share_that_is_good_enough_already_is_counted_apart() -> None:
    limit = Limit(Objective.TTFT, 2.0, good_enough_s=0.3)
    records = [
        answer(0, [(100, 1)]),
        answer(1, [(300, 1)]),  # exactly at the floor
        answer(2, [(1900, 1)]),  # good, but could be better
        answer(3, [(2500, 1)]),
    ]
    (found,) = goodput_of(records, limit).limits
    assert found.share.value == 0.75
    assert found.good_enough is not None
    assert found.good_enough.value == 0.5
    (without,) = goodput_of(records, TTFT).limits
    assert without.good_enough is None


def test_a_floor_on_smoothness_asks_for_the_same_share_of_gaps() -> None:
    limit = Limit(Objective.ITL, 0.5, good_enough_s=0.05, of_tokens=0.5)
    smooth = answer(0, [(10, 1), (20, 1), (30, 1), (400, 1)])
    halting = answer(1, [(10, 1), (110, 1), (210, 1), (220, 1)])
    (found,) = goodput_of([smooth, halting], limit).limits
    assert found.share.value == 1.0
    assert found.good_enough is not None
    assert found.good_enough.value == 0.5
