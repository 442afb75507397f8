"""The search for the highest rate, on servers whose answer is known.

M/M/1's sojourn time is exponential with rate mu - lambda, so that a share s of requests has its
first token within t at lambda = mu - ln(1 / (1 - s)) / t.
"""

import math
from collections.abc import Callable

import pytest

from netgain.errors import ConfigurationError, NetgainError
from netgain.lab.metrics.run_metrics import Latency, RunMetrics, run_metrics
from netgain.lab.rate_point import Verdict
from netgain.lab.rate_report import rate_report
from netgain.lab.rate_search import (
    Ask,
    Outcome,
    RateAnswer,
    SearchLimits,
    find_rate,
    requests_needed,
)
from netgain.lab.slo import Limit, Objective, ServiceLevel
from tests.lab.queues import poisson_run

CAPACITY = 20.0
LEVEL = ServiceLevel((Limit(Objective.TTFT, 0.5),), attainment=0.9)
TRUE_RATE = CAPACITY - math.log(10) / 0.5


def queue(
    seeds: list[int] | None = None, shift: int = 0, lag_from: float = math.inf
) -> Callable[[Ask], RunMetrics]:
    def measure(ask: Ask) -> RunMetrics:
        if seeds is not None:
            seeds.append(ask.repeat)
        run, records = poisson_run(
            ask.rate, ask.duration_s, 1000 * shift + ask.repeat, 1 / CAPACITY, tokens=2
        )
        if ask.rate >= lag_from:
            records = [
                type(r)(
                    **{f: getattr(r, f) for f in r.__struct_fields__}
                    | {"intended_s": r.intended_s - 1}
                )
                for r in records
            ]
        return run_metrics(run, records, slo=LEVEL)

    return measure


def search(
    measure: Callable[[Ask], RunMetrics], limits: SearchLimits, demanded: float = 0.9
) -> RateAnswer:
    return find_rate(measure, demanded, limits)


@pytest.mark.parametrize("shift", [0, 1])
def test_the_rate_found_brackets_the_true_one(shift: int) -> None:
    answer = search(queue(shift=shift), SearchLimits(first=2, duration_s=60, precision=0.15))
    assert answer.outcome is Outcome.FOUND
    assert answer.rate is not None
    assert answer.rate < TRUE_RATE * 1.05
    assert answer.rate > TRUE_RATE * 0.75
    assert answer.below is None or answer.below > TRUE_RATE * 0.97


def test_short_runs_do_not_sell_a_rate_above_capacity() -> None:
    # Two seconds each: at 21/s a queue has hardly begun to form.
    answer = search(queue(), SearchLimits(first=4, duration_s=2, confirming=10, budget_runs=80))
    assert answer.rate is None or answer.rate < TRUE_RATE * 1.1


def test_where_runs_do_not_tell_the_next_is_twice_as_long() -> None:
    # Ten seconds of 11 requests/s, which come in bunches, do not show whether 90 % are in time.
    lengths: dict[float, list[float]] = {}
    runs = queue()

    def measure(ask: Ask) -> RunMetrics:
        lengths.setdefault(ask.rate, []).append(ask.duration_s)
        return runs(ask)

    answer = search(measure, SearchLimits(first=TRUE_RATE * 0.7, duration_s=5, confirming=1))
    first, second, third, *_ = lengths[TRUE_RATE * 0.7]
    assert first == second == third / 2
    assert answer.rate is not None
    assert answer.rate > TRUE_RATE * 0.75


def test_a_limits_own_share_is_told_by_all_runs_together() -> None:
    # 25 answers in time, each run, are too few to show a share of 90 %; 50 and 100 are enough.
    level = ServiceLevel((Limit(Objective.TTFT, 2.0, share=0.9),), attainment=0.9)

    def measure(ask: Ask) -> RunMetrics:
        run, records = poisson_run(ask.rate, 25.0, ask.repeat, 1 / CAPACITY, tokens=2)
        return run_metrics(run, records, slo=level)

    limits = SearchLimits(first=1, highest=1, duration_s=25, most_runs=4, confirming=1)
    answer = search(measure, limits)
    assert answer.outcome is Outcome.NEVER_MISSED
    assert answer.runs <= 3
    tighter = ServiceLevel((Limit(Objective.TTFT, 2.0, share=0.999),), attainment=0.9)

    def short(ask: Ask) -> RunMetrics:
        run, records = poisson_run(ask.rate, 25.0, ask.repeat, 1 / CAPACITY, tokens=2)
        return run_metrics(run, records, slo=tighter)

    undecided = search(short, limits).curve[-1]
    assert undecided.verdict is Verdict.UNDECIDED
    assert "own share" in undecided.reason


def test_every_run_has_its_own_seed() -> None:
    seeds: list[int] = []
    answer = search(queue(seeds), SearchLimits(first=4, duration_s=20, precision=0.5))
    assert len(set(seeds)) == len(seeds) == answer.runs


def test_no_rate_is_accepted_from_a_single_run() -> None:
    answer = search(queue(), SearchLimits(first=4, duration_s=30, precision=0.5))
    assert all(len(p.runs) >= 2 for p in answer.curve if p.verdict is Verdict.MEETS)


def test_a_server_that_is_too_slow_even_alone_is_said_to_be() -> None:
    answer = search(queue(), SearchLimits(first=80, lowest=40, duration_s=5))
    assert answer.outcome is Outcome.LOWEST_MISSES
    assert answer.rate is None
    assert answer.below == 40
    assert "lowest" in answer.sentence


def test_a_server_that_never_misses_is_said_to_hold_up_to_the_highest_rate() -> None:
    answer = search(queue(), SearchLimits(first=2, highest=8, duration_s=30))
    assert answer.outcome is Outcome.NEVER_MISSED
    assert answer.rate == 8
    assert "8 requests/s" in answer.sentence


def test_a_budget_ends_the_search_and_keeps_what_is_known() -> None:
    answer = search(queue(), SearchLimits(first=2, duration_s=30, budget_runs=5))
    assert answer.outcome is Outcome.OUT_OF_BUDGET
    assert answer.runs == 5
    assert answer.rate == 4
    by_time = search(queue(), SearchLimits(first=2, duration_s=30, budget_s=100))
    assert by_time.load_s <= 100


def test_a_generator_that_cannot_keep_up_is_not_taken_for_a_slow_server() -> None:
    answer = search(queue(lag_from=8), SearchLimits(first=2, duration_s=30, precision=0.5))
    assert answer.outcome is Outcome.NOT_OFFERED
    assert answer.below is None
    assert "load generator" in answer.sentence


def test_a_server_that_dies_leaves_what_was_found() -> None:
    healthy = queue()

    def measure(ask: Ask) -> RunMetrics:
        if ask.rate > 3:
            raise NetgainError("cannot reach the server")
        return healthy(ask)

    answer = search(measure, SearchLimits(first=2, duration_s=30))
    assert answer.outcome is Outcome.STOPPED
    assert answer.rate == 2
    assert "cannot reach the server" in answer.sentence


def test_a_perfect_sample_needs_its_size() -> None:
    # Wilson's lower bound of n out of n: n / (n + 3.84).
    assert requests_needed(0.95) == 73
    assert requests_needed(0.99) == 381


def test_the_curve_holds_every_rate_tried_in_order() -> None:
    answer = search(queue(), SearchLimits(first=4, duration_s=30, precision=0.5))
    rates = [point.rate for point in answer.curve]
    assert rates == sorted(rates)
    p50 = [point.latency(Latency.TTFT, 50) or 0 for point in answer.curve]
    assert p50[-1] > p50[0]
    report = rate_report(answer)
    assert {c.name for s in report.sections for c in s.charts} == {
        "goodput_curve",
        "latency_throughput",
    }
    assert report.figure("highest_rate").value == answer.rate


def test_limits_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ConfigurationError):
        SearchLimits(first=1, highest=0.5)
    with pytest.raises(ConfigurationError):
        SearchLimits(precision=0)
    with pytest.raises(ConfigurationError):
        SearchLimits(fewest_runs=3, most_runs=2)
