"""The measured clock offset is right within what a ping can know."""

from hypothesis import given
from hypothesis import strategies as st

from netgain.engine.clock_offset import ClockOffset, clock_sample

DELAYS = st.integers(0, 10**9)


@given(st.integers(-(10**15), 10**15), DELAYS, DELAYS, DELAYS)
def test_the_offset_errs_by_half_a_round_trip_at_most(
    offset: int, there: int, answering: int, back: int
) -> None:
    ping = 10**16
    received = ping + there + offset
    sent = received + answering
    now = ping + there + answering + back
    sample = clock_sample(ping, received, sent, now)
    assert sample.rtt_ns == there + back
    assert abs(sample.offset_ns - offset) <= sample.rtt_ns // 2 + 1


def test_the_quickest_ping_is_believed() -> None:
    clock = ClockOffset()
    assert clock.offset_ns == 0
    for there, now in ((900_000, 0), (100, 1_000_000), (50_000_000, 2_000_000)):
        clock.add(clock_sample(now - 2 * there, now + 7, now + 7, now))
    assert abs(clock.offset_ns - 7) <= 100


def test_an_old_sample_gives_way_once_clocks_may_have_drifted_further() -> None:
    clock = ClockOffset()
    clock.add(clock_sample(0, 50, 50, 100))
    hour = 3600 * 10**9
    clock.add(clock_sample(hour, hour + 1_000_000, hour + 1_000_000, hour + 1_000_000))
    assert clock.offset_ns == 500_000
