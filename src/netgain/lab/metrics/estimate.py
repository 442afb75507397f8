"""A value and the interval it is known to."""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

LEVEL: Final = 0.95
"""Of every interval, two-sided."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A measured value and its confidence interval at `LEVEL`.

    A bound is None where the sample cannot give it (the 99th percentile of fifty requests has no
    upper bound: the largest of them is likely below it).
    """

    value: float
    low: float | None = None
    high: float | None = None


def t_quantile(probability: float, degrees: int) -> float:
    """Student's t, from the normal quantile (Hill's expansion; within 0.5 % from 4 degrees on)."""
    if degrees == 1:
        return math.tan(math.pi * (probability - 0.5))
    if degrees == 2:
        x = 2 * probability - 1
        return x * math.sqrt(2 / (1 - x * x))
    z = NormalDist().inv_cdf(probability)
    d = degrees
    return (
        z
        + (z**3 + z) / (4 * d)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * d**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * d**3)
        + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * d**4)
    )


def t_tail(statistic: float, degrees: int) -> float:
    """P(T > statistic), by bisection over `t_quantile`; at least 1e-6."""
    if statistic <= 0:
        return 1 - t_tail(-statistic, degrees) if statistic < 0 else 0.5
    low, high = 1e-6, 0.5
    for _ in range(60):
        middle = math.sqrt(low * high)
        if t_quantile(1 - middle, degrees) > statistic:
            low = middle
        else:
            high = middle
    return high


def wilson(share: float, trials: float, deviate: float) -> tuple[float, float]:
    """Wilson's interval of a share seen in `trials` (may be an effective, fractional number)."""
    if trials <= 0:
        return 0.0, 1.0
    square = deviate * deviate / trials
    centre = (share + square / 2) / (1 + square)
    half = math.sqrt(share * (1 - share) * square + square * square / 4) / (1 + square)
    return max(0.0, centre - half), min(1.0, centre + half)
