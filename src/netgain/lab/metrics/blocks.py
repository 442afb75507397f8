"""Blocks in time: what intervals are computed from.

Requests of one run are correlated: they share steps, queues and the machine's moods. Treating each
as a fresh draw gives intervals that are far too narrow. What happens in one stretch of time is
therefore summed first, and the spread is taken between stretches.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from netgain.lab.metrics.columns import FloatArray, IntArray

MOST_BLOCKS: Final = 20
FEWEST_BLOCKS: Final = 6


@dataclass(frozen=True, slots=True)
class TimeBlocks:
    """`count` equal stretches of [from_s, to_s)."""

    from_s: float
    to_s: float
    count: int

    @classmethod
    def over(cls, from_s: float, to_s: float, lifetime_s: float) -> "TimeBlocks":
        """Blocks of a window whose requests live for `lifetime_s` (a typical value).

        At least two lifetimes long where the window allows, so that neighbours share few requests.
        """
        fitting = (to_s - from_s) / (2 * lifetime_s) if lifetime_s > 0 else MOST_BLOCKS
        return cls(from_s, to_s, int(min(max(fitting, FEWEST_BLOCKS), MOST_BLOCKS)))

    @property
    def length_s(self) -> float:
        """Seconds of each."""
        return (self.to_s - self.from_s) / self.count

    @property
    def edges_s(self) -> FloatArray:
        """[count + 1] where they begin, and where the last ends."""
        return np.linspace(self.from_s, self.to_s, self.count + 1)

    def of(self, times_s: FloatArray) -> IntArray:
        """The block of each time; times outside belong to the nearest."""
        if self.to_s <= self.from_s:
            return np.zeros(len(times_s), dtype=np.int64)
        places = (times_s - self.from_s) / self.length_s
        return np.clip(places, 0, self.count - 1).astype(np.int64)
