"""Is the server keeping up? A server that is not has no latency, only a growing queue.

In open loop a load above capacity makes requests pile up at a constant rate, and every percentile
then says how long the run was. Such a run is named, not averaged over.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist
from typing import Final

import numpy as np

from netgain.lab.metrics.blocks import TimeBlocks
from netgain.lab.metrics.columns import FloatArray, RequestColumns
from netgain.lab.metrics.estimate import t_tail
from netgain.lab.metrics.grouped import sums
from netgain.lab.metrics.outstanding import Outstanding
from netgain.lab.metrics.trimming import Window
from netgain.lab.run_header import LoadKind, RunHeader

_BLOCKS: Final = 12
_FEWEST_REQUESTS: Final = 30
_RISE: Final = 1.5
_STEEP_RISE: Final = 2.0
_TREND: Final = 0.01
_DRIFT: Final = 0.02
_LEAST_GROWTH: Final = 0.02
_LEAST_REQUESTS: Final = 3
_CHANGING: Final = ("ramp", "step")


class Load(StrEnum):
    """What a run's course says about the server's capacity."""

    STEADY = "steady"
    RISING = "rising"
    """Latency or queue rose over the window, but not beyond what chance does: run longer."""
    SATURATED = "saturated"
    UNKNOWN = "unknown"
    """Too few requests to tell."""
    SELF_LIMITED = "self-limited"
    """Closed loop: as many requests as clients, whatever the server does."""


@dataclass(frozen=True, slots=True)
class Saturation:
    """The verdict over the window cut into twelve equal blocks, and what it rests on.

    `growth`: requests under way at the window's end less those at its beginning; `arrivals`: those
    that started in it. `drift`: `growth` by block; above capacity these are a random walk's steps
    with a positive mean, and `drift_chance` is the one-sided t test's probability that a server
    that keeps up shows such a mean. `queue_rise`, `ttft_rise`: mean of the last third of the
    blocks over that of the first third; `queue_chance`, `ttft_chance`: Mann-Kendall's probability
    of such a trend, one-sided (TTFT by start; NaN where too few requests got a first token).

    Saturated: drift beyond chance (2 %) with the queue's or TTFT's trend beyond chance (1 %), and a
    growth of at least 2 % of arrivals and three requests. Rising: a trend beyond chance, and the
    last third half as high again as the first. Where the load itself changes (a ramp, a step, a
    replayed trace) more requests are under way when more come: there only TTFT's trend counts,
    unless too few requests got a first token.
    """

    load: Load
    growth: float = 0.0
    arrivals: int = 0
    drift: tuple[float, ...] = ()
    drift_chance: float = math.nan
    queue_rise: float = math.nan
    queue_chance: float = math.nan
    ttft_rise: float = math.nan
    ttft_chance: float = math.nan

    @property
    def evidence(self) -> str:
        """One sentence with the numbers."""
        match self.load:
            case Load.SELF_LIMITED:
                return "closed loop: the load limits itself"
            case Load.UNKNOWN:
                return f"{self.arrivals} requests are too few to tell whether the server kept up"
            case _:
                changed = "grew" if self.growth >= 0 else "fell"
                return (
                    f"requests under way {changed} by {abs(self.growth):.0f} over "
                    f"{self.arrivals} arrivals (p = {self.drift_chance:.2g}), from the first third "
                    f"to the last {_trend(self.queue_rise, self.queue_chance)}; "
                    f"TTFT {_trend(self.ttft_rise, self.ttft_chance)}"
                )


def saturation(
    header: RunHeader, columns: RequestColumns, window: Window, ttft_s: FloatArray
) -> Saturation:
    """Whether the server kept up with the window's load; `ttft_s` [N], NaN where there is none."""
    if header.load is LoadKind.CLOSED:
        return Saturation(Load.SELF_LIMITED)
    inside = window.holds(columns.start_s)
    arrivals = int(inside.sum())
    if arrivals < _FEWEST_REQUESTS or window.length_s <= 0:
        return Saturation(Load.UNKNOWN, arrivals=arrivals)
    blocks = TimeBlocks(window.from_s, window.to_s, _BLOCKS)
    outstanding = Outstanding.of(columns.start_s, columns.gone_s)
    at_edges = outstanding.at(blocks.edges_s)
    drift = np.diff(at_edges)
    queue = outstanding.mean_between(blocks.edges_s)
    heard = inside & ~np.isnan(ttft_s)
    ttft = _block_means(blocks, columns.start_s[heard], ttft_s[heard])
    growth = float(at_edges[-1] - at_edges[0])
    drift_chance = drift_probability(drift)
    queue_chance, ttft_chance = _trend_probability(queue), _trend_probability(ttft)
    queue_rise, ttft_rise = _rise(queue), _rise(ttft)

    grew = growth >= max(_LEAST_REQUESTS, _LEAST_GROWTH * arrivals)
    told = [(ttft_chance, ttft_rise)]
    if not _changes_itself(header) or math.isnan(ttft_chance):
        told.append((queue_chance, queue_rise))
    trend = any(chance < _TREND for chance, _ in told)
    rose = any(chance < _TREND and rise >= _RISE for chance, rise in told)
    if grew and trend and drift_chance < _DRIFT and max(rise for _, rise in told) >= _RISE:
        load = Load.SATURATED
    else:
        load = Load.RISING if rose else Load.STEADY
    return Saturation(
        load,
        growth,
        arrivals,
        tuple(float(step) for step in drift),
        drift_chance,
        queue_rise,
        queue_chance,
        ttft_rise,
        ttft_chance,
    )


def _changes_itself(header: RunHeader) -> bool:
    """Whether requests are meant to come at a rate that is not the same throughout."""
    return header.load is LoadKind.REPLAY or header.arrivals.startswith(_CHANGING)


def drift_probability(steps: FloatArray) -> float:
    """One-sided t test: how likely steps of mean 0 average this much; 1 where they shrink."""
    if len(steps) < 2:
        return 1.0
    mean, deviation = float(steps.mean()), float(steps.std(ddof=1))
    if mean <= 0:
        return 1.0
    if deviation == 0:
        return 0.0
    return t_tail(mean / deviation * math.sqrt(len(steps)), len(steps) - 1)


def _trend(rise: float, chance: float) -> str:
    if math.isnan(chance):
        return "unknown, too few answers"
    return f"{rise:.2g}x (p = {chance:.2g})"


def _block_means(blocks: TimeBlocks, at_s: FloatArray, values: FloatArray) -> FloatArray:
    """Means by block, blocks without a value left out."""
    if not len(values):
        return np.empty(0)
    block_of = blocks.of(at_s)
    counts = sums(block_of, np.ones(len(values)), blocks.count)
    return sums(block_of, values, blocks.count)[counts > 0] / counts[counts > 0]


def _rise(levels: FloatArray) -> float:
    """Mean of the last third over the mean of the first; NaN where there are too few."""
    third = len(levels) // 3
    if not third:
        return math.nan
    first, last = float(levels[:third].mean()), float(levels[-third:].mean())
    return last / first if first > 0 else math.inf


def _trend_probability(levels: FloatArray) -> float:
    """Mann-Kendall, one-sided upwards, normal approximation with continuity correction."""
    n = len(levels)
    if n < 6:
        return math.nan
    earlier, later = np.triu_indices(n, 1)
    score = float(np.sign(levels[later] - levels[earlier]).sum())
    deviation = math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    return 1 - NormalDist().cdf((score - 1) / deviation)
