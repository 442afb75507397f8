"""What a latency was like: mean and percentiles, each with its interval.

A percentile's interval is Woodruff's: the standard error of the *share* of values below the
estimate is taken between blocks in time (see `blocks`), turned into Wilson's interval of that
share, and the sample's own quantiles at its two ends are the bounds. It needs one sort, where a
bootstrap of 100,000 requests needs a thousand, and it says by itself when a sample is too small for
a tail.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from netgain.lab.metrics.blocks import TimeBlocks
from netgain.lab.metrics.columns import FloatArray, IntArray
from netgain.lab.metrics.estimate import LEVEL, Estimate, t_quantile, wilson
from netgain.lab.metrics.grouped import sums
from netgain.lab.metrics.quantiles import WeightedSample

PERCENTILES: Final = (50, 90, 95, 99)
_FEWEST_BLOCKS: Final = 4


@dataclass(frozen=True, slots=True)
class Distribution:
    """n values; percentiles by numpy's linear method."""

    n: int
    mean: Estimate
    minimum: float
    maximum: float
    percentiles: Mapping[int, Estimate]

    @property
    def p50(self) -> Estimate:
        """The median."""
        return self.percentiles[50]

    @property
    def p90(self) -> Estimate:
        """The 90th percentile."""
        return self.percentiles[90]

    @property
    def p95(self) -> Estimate:
        """The 95th percentile."""
        return self.percentiles[95]

    @property
    def p99(self) -> Estimate:
        """The 99th percentile."""
        return self.percentiles[99]


def distribution(
    values: FloatArray,
    at_s: FloatArray,
    blocks: TimeBlocks,
    weights: FloatArray | None = None,
) -> Distribution | None:
    """The distribution of the values that are not NaN; None when there are none.

    `at_s` says when each arose. With `weights` a value counts that many times (a token-weighted
    form: weight a request's value by its tokens).
    """
    has = ~np.isnan(values)
    if weights is not None:
        has &= weights > 0
    if not has.all():
        values, at_s = values[has], at_s[has]
        weights = None if weights is None else weights[has]
    if not len(values):
        return None
    counted = np.ones(len(values)) if weights is None else weights
    sample = WeightedSample.of(values, weights)
    block_of = _block_of(at_s, blocks)
    return Distribution(
        n=round(sample.size),
        mean=_mean(values, counted, block_of),
        minimum=float(sample.values[0]),
        maximum=float(sample.values[-1]),
        percentiles=_percentiles(sample, values, counted, block_of),
    )


def share(met: FloatArray, at_s: FloatArray, blocks: TimeBlocks) -> tuple[Estimate, float]:
    """The share of ones in `met`, and the number of independent trials it is worth."""
    if not len(met):
        return Estimate(math.nan), 0.0
    value = float(met.mean())
    block_of = _block_of(at_s, blocks)
    error, degrees = _ratio_error(
        sums(block_of, met, 0), sums(block_of, np.ones(len(met)), 0), value
    )
    # All alike: the blocks show no spread, but n trials still leave room for a rare one.
    variance = value * (1 - value)
    trials = len(met) if variance == 0 or error == 0 else min(variance / error**2, len(met))
    low, high = wilson(value, trials, t_quantile((1 + LEVEL) / 2, degrees))
    return Estimate(value, low, high), trials


def _block_of(at_s: FloatArray, blocks: TimeBlocks) -> IntArray:
    """Blocks in time, empty ones left out; each value its own where too few are filled."""
    block_of = blocks.of(at_s)
    filled = np.bincount(block_of, minlength=blocks.count) > 0
    if filled.sum() < _FEWEST_BLOCKS:
        return np.arange(len(at_s), dtype=np.int64)
    return block_of if filled.all() else (np.cumsum(filled) - 1)[block_of]


def _ratio_error(totals: FloatArray, sizes: FloatArray, ratio: float) -> tuple[float, int]:
    """Standard error of sum(totals) / sum(sizes) from its spread between blocks, and its degrees of
    freedom."""
    count = len(totals)
    if count < 2:
        return math.nan, 1
    residual = totals - ratio * sizes
    spread = count / (count - 1) * float(np.sum(residual * residual))
    return math.sqrt(spread) / float(sizes.sum()), count - 1


def _mean(values: FloatArray, weights: FloatArray, block_of: IntArray) -> Estimate:
    total = float(weights.sum())
    mean = float(values @ weights) / total
    if len(values) < 2:
        return Estimate(mean)
    error, degrees = _ratio_error(
        sums(block_of, values * weights, 0), sums(block_of, weights, 0), mean
    )
    alone = math.sqrt(float((weights**2) @ (values - mean) ** 2)) / total
    half = t_quantile((1 + LEVEL) / 2, degrees) * max(error, alone)
    # Times have no mean below nothing, however far apart few blocks are.
    return Estimate(mean, max(min(0.0, mean), mean - half), mean + half)


def _percentiles(
    sample: WeightedSample, values: FloatArray, weights: FloatArray, block_of: IntArray
) -> Mapping[int, Estimate]:
    found = [sample.quantile(p / 100) for p in PERCENTILES]
    if len(values) < 2:
        return {p: Estimate(value) for p, value in zip(PERCENTILES, found, strict=True)}
    # [block, cell]: how much of each block lies in each cell between the percentiles.
    cells = len(found) + 1
    cell = block_of * cells + np.searchsorted(np.array(found), values, side="left")
    count = int(block_of.max()) + 1
    table = sums(cell, weights, count * cells).reshape(count, cells)
    below = np.cumsum(table, axis=1)
    sizes = below[:, -1]
    alone = float(weights @ weights) / sample.size**2
    estimates = {}
    closer = 1.0
    for place, (p, value) in enumerate(zip(PERCENTILES, found, strict=True)):
        # The tail's own clustering rests on few values; the next percentile's steadies it.
        inflation, degrees = _clustering(below[:, place], sizes, alone)
        trials = 1 / (alone * max(inflation, closer))
        closer = inflation
        estimates[p] = _percentile(sample, p / 100, value, trials, degrees)
    return estimates


def _clustering(below: FloatArray, sizes: FloatArray, alone: float) -> tuple[float, int]:
    """How much larger than for independent values the variance of a share is; degrees of freedom.

    `below` [B]: what each block of `sizes` [B] has below the percentile. `alone`: what independent
    values would make the variance, of 1. At least 1: few blocks can agree by chance.
    """
    reached = float(below.sum() / sizes.sum())
    error, degrees = _ratio_error(below, sizes, reached)
    variance = reached * (1 - reached) * alone
    # A tail seen in few blocks says little about how blocks differ.
    telling = min(int(np.sum(below > 0)), int(np.sum(below < sizes)))
    return (
        max(error * error / variance, 1.0) if variance > 0 else 1.0,
        max(1, min(degrees, telling - 1)),
    )


def _percentile(
    sample: WeightedSample, probability: float, value: float, trials: float, degrees: int
) -> Estimate:
    """The estimate with its interval, from the independent values the sample is worth."""
    low, high = wilson(probability, trials, t_quantile((1 + LEVEL) / 2, degrees))
    missed = (1 - LEVEL) / 2
    return Estimate(
        value,
        sample.quantile(low) if (1 - probability) ** trials <= missed else None,
        sample.quantile(high) if probability**trials <= missed else None,
    )
