"""How far another process's monotonic clock is ahead of ours, from ping and pong."""

from dataclasses import dataclass
from typing import Final

_DRIFT: Final = 50e-6
"""Seconds by which two clocks may part per second: a quartz's usual tolerance."""


@dataclass(frozen=True, slots=True)
class ClockSample:
    """One ping's result, in nanoseconds; the true offset is within `offset_ns` +- `rtt_ns` / 2."""

    offset_ns: int
    rtt_ns: int
    at_ns: int


def clock_sample(ping_ns: int, received_ns: int, sent_ns: int, now_ns: int) -> ClockSample:
    """Ping sent and pong read (our clock), ping read and pong sent (theirs).

    The usual two-way time transfer (RFC 5905, section 8).
    """
    offset = ((received_ns - ping_ns) + (sent_ns - now_ns)) // 2
    rtt = (now_ns - ping_ns) - (sent_ns - received_ns)
    return ClockSample(offset, max(rtt, 0), now_ns)


class ClockOffset:
    """The best sample so far: a ping answered by a busy engine says less than an older quick one.

    A sample's error bound is half its round trip, growing with age by the clocks' drift.
    """

    def __init__(self) -> None:
        self._best: ClockSample | None = None

    @property
    def offset_ns(self) -> int:
        """Their clock less ours; 0 until measured."""
        return 0 if self._best is None else self._best.offset_ns

    def add(self, sample: ClockSample) -> None:
        """Takes a sample, and keeps it if it is now the most certain one."""
        best = self._best
        if best is None or sample.rtt_ns / 2 <= best.rtt_ns / 2 + _DRIFT * (
            sample.at_ns - best.at_ns
        ):
            self._best = sample
