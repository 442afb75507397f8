import pytest

from netgain.lab.lag import lag_of
from netgain.lab.record import ErrorKind, Failure, RequestRecord


def record(lag_s: float | None, e2e_s: float, failure: Failure | None = None) -> RequestRecord:
    return RequestRecord(
        index=0,
        request_class="chat",
        conversation=0,
        intended_s=1.0,
        sent_s=None if lag_s is None else 1.0 + lag_s,
        last_token_s=1.0 + e2e_s,
        failure=failure,
    )


def test_lag_is_from_the_intended_time_to_the_sent_one() -> None:
    lag = lag_of([record(lag_s, 2.0) for lag_s in (0.0, 0.125, 0.25, 0.5)])
    assert lag is not None
    assert lag.count == 4
    assert (lag.mean_s, lag.p50_s, lag.max_s) == (0.21875, 0.1875, 0.5)
    assert lag.p99_s == pytest.approx(0.4925)
    assert lag.mean_e2e_s == 2.0


@pytest.mark.parametrize(("lag_s", "valid"), [(0.0, True), (0.0195, True), (0.0205, False)])
def test_a_run_is_invalid_above_one_percent_of_e2e(lag_s: float, valid: bool) -> None:
    lag = lag_of([record(lag_s, 2.0)] * 3)
    assert lag is not None
    assert lag.valid is valid


def test_failed_requests_have_a_lag_but_no_e2e() -> None:
    late = Failure(ErrorKind.TIMEOUT, "late")
    lag = lag_of([record(0.25, 500.0, late), record(0.0, 2.0)])
    assert lag is not None
    assert (lag.mean_s, lag.mean_e2e_s) == (0.125, 2.0)


def test_what_was_never_sent_has_no_lag() -> None:
    unconnected = Failure(ErrorKind.CONNECT, "refused")
    assert lag_of([record(None, 2.0, unconnected)]) is None
    assert lag_of([]) is None
