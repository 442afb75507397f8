"""The load generator's own lag, and when it makes a run invalid."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from netgain.lab.metrics.columns import FloatArray
from netgain.lab.run_header import LoadKind

MOST_LAG: Final = 0.01
"""Of E2E."""
LAG_RULE: Final = (
    "invalid when the mean lag exceeds 1% of the mean E2E, or the lag's p99 exceeds 1% of the p99 "
    "of E2E"
)


@dataclass(frozen=True, slots=True)
class Lag:
    """How late requests were sent: sent - intended, seconds, over the window's requests.

    In open loop and replay (`counts`) latency is taken from the intended time, so the generator's
    lag is in it. `of_mean` and `of_p99` are its shares of the mean and of the 99th percentile of
    E2E; None when nothing was answered. In closed loop latency counts from the send and lag spoils
    nothing.
    """

    n: int
    mean_s: float
    p50_s: float
    p99_s: float
    maximum_s: float
    counts: bool
    of_mean: float | None
    of_p99: float | None

    @property
    def valid(self) -> bool:
        """By `LAG_RULE`."""
        if not self.counts:
            return True
        return all(part is None or part <= MOST_LAG for part in (self.of_mean, self.of_p99))

    @classmethod
    def of(cls, load: LoadKind, lags_s: FloatArray, e2e_s: FloatArray) -> "Lag | None":
        """None when nothing was sent."""
        lags_s = lags_s[~np.isnan(lags_s)]
        e2e_s = e2e_s[~np.isnan(e2e_s)]
        if not len(lags_s):
            return None
        p99_s = float(np.percentile(lags_s, 99))
        return cls(
            n=len(lags_s),
            mean_s=float(lags_s.mean()),
            p50_s=float(np.percentile(lags_s, 50)),
            p99_s=p99_s,
            maximum_s=float(lags_s.max()),
            counts=load is not LoadKind.CLOSED,
            of_mean=float(lags_s.mean() / e2e_s.mean()) if len(e2e_s) else None,
            of_p99=p99_s / float(np.percentile(e2e_s, 99)) if len(e2e_s) else None,
        )
