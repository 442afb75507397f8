"""How many requests were under way, as a function of time."""

from dataclasses import dataclass

import numpy as np

from netgain.lab.metrics.columns import FloatArray


@dataclass(frozen=True, slots=True)
class Outstanding:
    """Requests between their start and the time they were gone. Both [N], ascending."""

    begun_s: FloatArray
    gone_s: FloatArray

    @classmethod
    def of(cls, begun_s: FloatArray, gone_s: FloatArray) -> "Outstanding":
        """From matching beginnings and ends; requests that never began (NaN) are left out."""
        there = ~np.isnan(begun_s)
        return cls(np.sort(begun_s[there]), np.sort(gone_s[there]))

    def at(self, times_s: FloatArray) -> FloatArray:
        """[T] how many were under way at each time."""
        begun = np.searchsorted(self.begun_s, times_s, side="right")
        gone = np.searchsorted(self.gone_s, times_s, side="right")
        return (begun - gone).astype(np.float64)

    def mean_between(self, edges_s: FloatArray) -> FloatArray:
        """[T - 1] time averages between successive edges."""
        area = _elapsed(self.begun_s, edges_s) - _elapsed(self.gone_s, edges_s)
        return np.asarray(np.diff(area) / np.diff(edges_s))


def _elapsed(since_s: FloatArray, at_s: FloatArray) -> FloatArray:
    """[T] sum over all `since_s` of the time passed since, at each `at_s`."""
    passed = np.searchsorted(since_s, at_s, side="right")
    sums = np.concatenate([np.zeros(1), np.cumsum(since_s)])
    return np.asarray(passed * at_s - sums[passed])
