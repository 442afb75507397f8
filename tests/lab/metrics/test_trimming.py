"""Which part of a run is measured."""

import pytest

from netgain.errors import ConfigurationError
from netgain.lab.metrics.columns import RequestColumns
from netgain.lab.metrics.trimming import Trim, TrimKind, TrimRule, Window, steady_window
from netgain.lab.record import RequestRecord
from netgain.lab.run_header import LoadKind, RunHeader
from tests.lab.queues import answered, header


def window_of(
    run: RunHeader, records: list[RequestRecord], warmup: str = "auto", cooldown: str = "auto"
) -> Window:
    rule = TrimRule(Trim.parse(warmup), Trim.parse(cooldown))
    return steady_window(run, RequestColumns.of(run, records), rule)


def every_tenth_of_a_second(count: int = 100, lasting_s: float = 0.5) -> list[RequestRecord]:
    return [answered(i, i / 10, [i / 10 + lasting_s]) for i in range(count)]


def test_open_loop_waits_until_the_first_tenth_of_the_requests_has_ended() -> None:
    # Of the first ten, starting at 0 to 0.9 s and lasting 0.5 s, 95 % have ended at 1.355 s.
    window = window_of(header(duration_s=10), every_tenth_of_a_second())
    assert window.from_s == pytest.approx(0.5 + 0.9 * 0.95)
    assert window.to_s == 10
    assert (window.before, window.after) == (14, 0)


def test_a_closed_loops_first_burst_is_cut() -> None:
    run = header(LoadKind.CLOSED, duration_s=10, concurrency=4)
    burst = [answered(i, 0.0, [1.0 + i / 10]) for i in range(4)]
    later = [answered(4 + i, 1.0 + i / 10, [1.5 + i / 10]) for i in range(90)]
    assert window_of(run, burst + later).from_s == pytest.approx(1.3)


def test_the_automatic_rule_never_cuts_more_than_a_quarter() -> None:
    window = window_of(header(duration_s=10), every_tenth_of_a_second(lasting_s=30.0))
    assert window.from_s == 2.5


def test_the_window_ends_when_requests_stop_starting() -> None:
    slow = every_tenth_of_a_second(lasting_s=5.0)
    assert window_of(header(duration_s=10), slow).to_s == 10


def test_a_run_that_was_cut_short_ends_with_its_last_start() -> None:
    window = window_of(header(duration_s=60), every_tenth_of_a_second())
    assert window.to_s == pytest.approx(9.9, abs=0.01)
    assert window.after == 0


def test_a_closed_loop_bounded_by_requests_is_not_measured_while_it_drains() -> None:
    # Two clients, 20 requests of 1 s; the last takes 30 s, while the other client has no more.
    run = header(LoadKind.CLOSED, duration_s=0, concurrency=2)
    records = [answered(i, i // 2, [i // 2 + 1.0]) for i in range(19)]
    records.append(answered(19, 9.0, [39.0]))
    window = window_of(run, records)
    assert (window.from_s, window.to_s) == pytest.approx((1.0, 9.0), abs=0.01)


@pytest.mark.parametrize(
    ("warmup", "cooldown", "from_s", "to_s"),
    [
        ("none", "none", 0.0, 10.0),
        ("2s", "1500ms", 2.0, 8.5),
        ("20%", "10%", 2.0, 9.0),
        ("30", "20", 3.0, 8.0),
    ],
)
def test_cuts_in_seconds_shares_and_requests(
    warmup: str, cooldown: str, from_s: float, to_s: float
) -> None:
    window = window_of(header(duration_s=10), every_tenth_of_a_second(), warmup, cooldown)
    assert (window.from_s, window.to_s) == pytest.approx((from_s, to_s))
    assert window.before == round(from_s * 10)
    assert window.after == 100 - round(to_s * 10)


def test_a_rule_that_would_leave_nothing_cuts_nothing_and_says_so() -> None:
    window = window_of(header(duration_s=10), every_tenth_of_a_second(), "9s", "5s")
    assert window.whole
    assert (window.from_s, window.to_s) == (0.0, 10.0)
    assert "nothing" in window.rule


def test_a_run_without_requests_has_a_window_and_nothing_in_it() -> None:
    assert window_of(header(duration_s=10), []).length_s == 10


@pytest.mark.parametrize("text", ["", "soon", "-1s", "60%", "1.5", "3h"])
def test_a_trim_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        Trim.parse(text)


def test_trims_are_read_with_their_units() -> None:
    assert Trim.parse(" Auto ") == Trim(TrimKind.AUTO)
    assert Trim.parse("250ms") == Trim(TrimKind.SECONDS, 0.25)
    assert Trim.parse("5 %") == Trim(TrimKind.SHARE, 0.05)
    assert Trim.parse("50") == Trim(TrimKind.REQUESTS, 50)
