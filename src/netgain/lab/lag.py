"""How late the generator itself was."""

import statistics
from collections.abc import Iterable
from typing import Final

import msgspec

from netgain.lab.record import RequestRecord

ALLOWED_SHARE: Final = 0.01


class Lag(msgspec.Struct, frozen=True):
    """Seconds from when requests were meant to be sent until they were, over those that were.

    `share` is the mean lag over the mean E2E of the requests that were answered whole, E2E from the
    intended time to the last token; None when there were none. A run is invalid when it exceeds
    1 %: then latencies are partly the generator's own.
    """

    count: int
    mean_s: float
    p50_s: float
    p99_s: float
    max_s: float
    mean_e2e_s: float | None

    @property
    def share(self) -> float | None:
        """Of the mean E2E."""
        return self.mean_s / self.mean_e2e_s if self.mean_e2e_s else None

    @property
    def valid(self) -> bool:
        """Whether the share is allowed. Where nothing was answered there is nothing to spoil."""
        return self.share is None or self.share <= ALLOWED_SHARE


def lag_of(records: Iterable[RequestRecord]) -> Lag | None:
    """None when nothing was sent."""
    meter = LagMeter()
    for record in records:
        meter.add(record)
    return meter.lag()


class LagMeter:
    """The same, record by record."""

    def __init__(self) -> None:
        self._lags_s: list[float] = []
        self._e2e_s = 0.0
        self._answered = 0

    def add(self, record: RequestRecord) -> None:
        """One more record."""
        if record.sent_s is not None:
            self._lags_s.append(record.sent_s - record.intended_s)
        if record.failure is None and record.last_token_s is not None:
            self._e2e_s += record.last_token_s - record.intended_s
            self._answered += 1

    def lag(self) -> Lag | None:
        """Of the records so far."""
        lags_s = sorted(self._lags_s)
        if not lags_s:
            return None
        return Lag(
            len(lags_s),
            statistics.fmean(lags_s),
            _quantile(lags_s, 0.5),
            _quantile(lags_s, 0.99),
            lags_s[-1],
            self._e2e_s / self._answered if self._answered else None,
        )


def _quantile(ordered: list[float], share: float) -> float:
    """Between the two nearest in proportion, as numpy's default does."""
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
