"""Requests that met every objective, per second."""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from netgain.lab.metrics.blocks import TimeBlocks
from netgain.lab.metrics.columns import BoolArray, FloatArray, RequestColumns
from netgain.lab.metrics.distribution import share
from netgain.lab.metrics.estimate import Estimate
from netgain.lab.metrics.gaps import Gaps
from netgain.lab.metrics.grouped import sums
from netgain.lab.metrics.request_times import RequestTimes
from netgain.lab.metrics.throughput import rate_estimate
from netgain.lab.metrics.trimming import Window
from netgain.lab.slo import Limit, Objective, ServiceLevel

_CLOCK_S: Final = 1e-9
"""Differences of times are exact to less than this; what is exactly at a limit must pass."""


class Met(StrEnum):
    """Whether a demand was met, as far as the sample can tell."""

    YES = "met"
    NO = "missed"
    UNCLEAR = "unclear"
    """The confidence interval holds the demanded share: more requests would tell."""


@dataclass(frozen=True, slots=True)
class Attainment:
    """One limit: how many requests it applied to, and the share of them that met it.

    `trials`: the number of independent requests that share is worth.
    `met`: None when the limit has no share of its own. `good_enough`: the share whose latency was
    at most the limit's floor, for whom faster earns nothing; None when it has none.
    """

    limit: Limit
    applies: int
    share: Estimate
    trials: float
    met: Met | None
    good_enough: Estimate | None = None


@dataclass(frozen=True, slots=True)
class Goodput:
    """Over the requests that started in the window.

    A request is good when it was answered with at least one token and met every limit that applies
    to it. Errors, time-outs and requests cut off at the run's end are misses. A one-token answer
    has no TPOT and no ITL: those limits do not apply to it, it neither passes nor fails them.
    `rate`: good requests per second of the window. `attainment`: good / all; `trials` is the number
    of independent requests that share is worth. `late`: good and all among the window's later half.
    """

    level: ServiceLevel
    rate: Estimate
    attainment: Estimate
    met: Met
    good: int
    requests: int
    trials: float
    late: tuple[int, int]
    limits: tuple[Attainment, ...]

    @property
    def demanded(self) -> float:
        """The share of requests that must meet every limit."""
        return self.level.attainment

    @classmethod
    def of(
        cls,
        level: ServiceLevel,
        columns: RequestColumns,
        times: RequestTimes,
        token_gaps: Gaps,
        window: Window,
        blocks: TimeBlocks,
        among: BoolArray,
    ) -> "Goodput | None":
        """Among those of `among` [N] that started in the window; None when there are none."""
        counted = among & window.holds(columns.start_s)
        if not counted.any():
            return None
        start_s = columns.start_s[counted]
        good = columns.answered & (columns.output_tokens >= 1)
        limits = []
        for limit in level.limits:
            applies, meets = _meets(limit, limit.limit_s, columns, times, token_gaps)
            good = good & (meets | ~applies)
            concerned = counted & applies
            limit_share, limit_trials = _share_of(meets, concerned, columns, blocks)
            met = None if limit.share is None else judge(limit_share, limit.share)
            enough = None
            if limit.good_enough_s is not None:
                _, within = _meets(limit, limit.good_enough_s, columns, times, token_gaps)
                enough, _ = _share_of(within, concerned, columns, blocks)
            applied = int(concerned.sum())
            limits.append(Attainment(limit, applied, limit_share, limit_trials, met, enough))
        ones = good[counted].astype(np.float64)
        attainment, trials = share(ones, start_s, blocks)
        later = start_s >= (window.from_s + window.to_s) / 2
        per_block = sums(blocks.of(start_s), ones, blocks.count)
        return cls(
            level=level,
            rate=rate_estimate(per_block, blocks.length_s),
            attainment=attainment,
            met=_all_met([judge(attainment, level.attainment), *(a.met for a in limits)]),
            good=int(ones.sum()),
            requests=int(counted.sum()),
            trials=trials,
            late=(int(ones[later].sum()), int(later.sum())),
            limits=tuple(limits),
        )


def _share_of(
    met: BoolArray, among: BoolArray, columns: RequestColumns, blocks: TimeBlocks
) -> tuple[Estimate, float]:
    return share(met[among].astype(np.float64), columns.start_s[among], blocks)


def _meets(
    limit: Limit,
    at_most_s: float,
    columns: RequestColumns,
    times: RequestTimes,
    token_gaps: Gaps,
) -> tuple[BoolArray, BoolArray]:
    """[N] to whom the limit applies, and whose latency is at most `at_most_s`. It applies to all
    who were not answered.
    """
    everyone = np.ones(len(columns), dtype=np.bool_)
    match limit.objective:
        case Objective.TTFT:
            return everyone, _within(times.ttft, at_most_s)
        case Objective.E2E:
            return everyone, _within(times.e2e, at_most_s)
        case Objective.TPOT:
            return ~(columns.answered & np.isnan(times.tpot)), _within(times.tpot, at_most_s)
        case Objective.ITL:
            smooth = token_gaps.share_within(at_most_s + _CLOCK_S, len(columns))
            return ~(columns.answered & np.isnan(smooth)), _at_least(smooth, limit.of_tokens)


def _within(seconds: FloatArray, limit_s: float) -> BoolArray:
    return np.less_equal(seconds, limit_s + _CLOCK_S)


def _at_least(shares: FloatArray, least: float) -> BoolArray:
    # A share is a quotient of counts: 0.95 of 20 must pass whatever the rounding.
    return np.greater_equal(shares, least - 1e-9)


def judge(found: Estimate, demanded: float) -> Met:
    """Whether the whole interval is at or above the demand, or below it."""
    if math.isnan(found.value) or found.low is None or found.high is None:
        return Met.UNCLEAR
    if found.low >= demanded:
        return Met.YES
    return Met.NO if found.high < demanded else Met.UNCLEAR


def _all_met(parts: list[Met | None]) -> Met:
    if Met.NO in parts:
        return Met.NO
    return Met.UNCLEAR if Met.UNCLEAR in parts else Met.YES
