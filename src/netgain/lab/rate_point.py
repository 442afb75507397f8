"""What one request rate showed, over all the runs made at it."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist
from typing import Final

import numpy as np

from netgain.lab.metrics.estimate import LEVEL, Estimate, wilson
from netgain.lab.metrics.goodput import Met, judge
from netgain.lab.metrics.run_metrics import Latency, RunMetrics
from netgain.lab.metrics.saturation import Load, drift_probability

_DRIFT: Final = 0.02
_FLAGRANT: Final = 0.5
CURVE_LATENCIES: Final = (Latency.TTFT, Latency.TPOT, Latency.E2E)


class Verdict(StrEnum):
    """Whether a rate meets the SLO."""

    MEETS = "meets"
    MISSES = "misses"
    UNDECIDED = "undecided"
    """The runs so far do not tell."""
    NOT_OFFERED = "not offered"
    """The load generator could not send at this rate in time; the server was not tried."""


@dataclass(frozen=True, slots=True)
class Seen:
    """How many of so many requests did, worth `trials` independent ones."""

    good: float
    requests: int
    trials: float


@dataclass(frozen=True, slots=True)
class RunAtRate:
    """What the search keeps of one run.

    `good` of `requests`, worth `trials` independent ones; `late_good` of `late` in the window's
    later half; `own` what was seen of each limit with a share of its own, and that share.
    `latency` holds the curve's percentiles, keyed by latency and percentile.
    """

    rate: float
    repeat: int
    valid: bool
    load: Load
    drift: tuple[float, ...]
    good: int
    requests: int
    trials: float
    late_good: int
    late: int
    own: tuple[tuple[Seen, float], ...]
    goodput: float
    offered: float
    output_tokens_per_s: float
    latency: Mapping[tuple[Latency, int], float]

    @classmethod
    def of(cls, rate: float, repeat: int, metrics: RunMetrics) -> "RunAtRate":
        """From the metrics of a run at `rate`, which must have been computed with the SLO."""
        goodput = metrics.goodput
        limits = () if goodput is None else goodput.limits
        return cls(
            rate=rate,
            repeat=repeat,
            valid=metrics.valid,
            load=metrics.saturation.load,
            drift=metrics.saturation.drift,
            good=0 if goodput is None else goodput.good,
            requests=metrics.requests,
            trials=0.0 if goodput is None else goodput.trials,
            late_good=0 if goodput is None else goodput.late[0],
            late=0 if goodput is None else goodput.late[1],
            own=tuple(
                (Seen(a.share.value * a.applies if a.applies else 0, a.applies, a.trials), share)
                for a in limits
                if (share := a.limit.share) is not None
            ),
            goodput=0.0 if goodput is None else goodput.rate.value,
            offered=metrics.throughput.offered.value,
            output_tokens_per_s=metrics.throughput.output_tokens.value,
            latency={
                (name, p): metrics.latency[name].percentiles[p].value
                for name in CURVE_LATENCIES
                if name in metrics.latency
                for p in (50, 95, 99)
            },
        )


@dataclass(frozen=True, slots=True)
class RatePoint:
    """The runs at one rate, taken together.

    `attainment` pools them: good / all, with Wilson's interval over the requests' effective number,
    made smaller again when runs differ from each other more than their requests explain. Latencies
    are means over runs of each run's percentile.
    """

    rate: float
    runs: tuple[RunAtRate, ...]
    demanded: float
    verdict: Verdict
    reason: str
    attainment: Estimate
    saturated: bool

    @property
    def goodput(self) -> float:
        """Good requests per second, mean over runs."""
        return _mean([run.goodput for run in self.runs])

    @property
    def output_tokens_per_s(self) -> float:
        """Mean over runs."""
        return _mean([run.output_tokens_per_s for run in self.runs])

    def latency(self, name: Latency, percentile: int) -> float | None:
        """Seconds; None when no run has it."""
        found = [
            run.latency[name, percentile] for run in self.runs if (name, percentile) in run.latency
        ]
        return _mean(found) if found else None

    @classmethod
    def judge(
        cls, rate: float, runs: Sequence[RunAtRate], demanded: float, fewest_runs: int
    ) -> "RatePoint":
        """What the runs say together; those whose load generator lagged are not heard.

        Meets: the whole attainment interval at or above the demand, the later halves on average too
        (a queue that fills slowly shows there first), and neither half of the runs rising nor all
        their queues together drifting. Misses: the whole interval below the demand, a limit's own
        share missed, or the server saturated. Either takes `fewest_runs` runs;
        only a rate at which not even half the demand is reached misses at once.
        """
        heard = [run for run in runs if run.valid]
        attainment = pooled([Seen(run.good, run.requests, run.trials) for run in heard])
        saturated = _saturated(heard)
        if not heard and len(runs) >= fewest_runs:
            verdict, reason = Verdict.NOT_OFFERED, "the load generator lagged in every run"
        else:
            verdict, reason = _verdict(heard, attainment, saturated, demanded, fewest_runs)
        return cls(rate, tuple(runs), demanded, verdict, reason, attainment, saturated)


def pooled(runs: Sequence[Seen]) -> Estimate:
    """Good / all over runs, with the interval described in `RatePoint`."""
    requests = sum(run.requests for run in runs)
    if not requests:
        return Estimate(math.nan)
    share = sum(run.good for run in runs) / requests
    trials = sum(run.trials for run in runs)
    variance = share * (1 - share)
    if len(runs) > 1 and variance > 0:
        apart = sum(
            run.trials * (run.good / run.requests - share) ** 2 for run in runs if run.requests
        )
        trials /= max(1.0, apart / ((len(runs) - 1) * variance))
    low, high = wilson(share, trials, NormalDist().inv_cdf((1 + LEVEL) / 2))
    return Estimate(share, low, high)


def _own_shares(runs: Sequence[RunAtRate]) -> set[Met]:
    """Of the limits that have one, over all runs."""
    by_limit = zip(*(run.own for run in runs if run.own), strict=True)
    return {judge(pooled([seen for seen, _ in limit]), limit[0][1]) for limit in by_limit}


def _saturated(runs: Sequence[RunAtRate]) -> bool:
    """Half the runs saturated, or the steps of all their queues taken together drift upwards."""
    if _half(run.load is Load.SATURATED for run in runs):
        return True
    suspicious = _half(run.load in (Load.SATURATED, Load.RISING) for run in runs)
    steps = np.array([step for run in runs for step in run.drift])
    return suspicious and drift_probability(steps) < _DRIFT


def _verdict(
    runs: Sequence[RunAtRate],
    attainment: Estimate,
    saturated: bool,
    demanded: float,
    fewest_runs: int,
) -> tuple[Verdict, str]:
    low, high = attainment.low, attainment.high
    if low is None or high is None:
        return Verdict.UNDECIDED, "no request started in the window"
    spoken = f"attainment {attainment.value:.1%} [{low:.1%}, {high:.1%}] of {demanded:.1%}"
    if high < demanded * _FLAGRANT:
        return Verdict.MISSES, spoken
    if len(runs) < fewest_runs:
        return Verdict.UNDECIDED, f"{len(runs)} of at least {fewest_runs} runs"
    if saturated:
        return Verdict.MISSES, "the server saturated: its queue grew as long as the load lasted"
    if high < demanded:
        return Verdict.MISSES, spoken
    own = _own_shares(runs)
    if Met.NO in own:
        return Verdict.MISSES, "a limit's own share was missed"
    if low < demanded:
        return Verdict.UNDECIDED, f"{spoken}: too few requests to tell"
    late = sum(run.late for run in runs)
    late_share = sum(run.late_good for run in runs) / late if late else math.nan
    if not late_share >= demanded:
        return Verdict.UNDECIDED, f"attainment falls to {late_share:.1%} in the later halves"
    if _half(run.load in (Load.RISING, Load.SATURATED) for run in runs):
        return Verdict.UNDECIDED, "latency or queue still rose over the runs"
    if Met.UNCLEAR in own:
        return Verdict.UNDECIDED, "too few requests to tell a limit's own share"
    return Verdict.MEETS, spoken


def _half(of_runs: Iterable[bool]) -> bool:
    """Whether at least half say so; nobody says nothing."""
    said = list(of_runs)
    return bool(said) and 2 * sum(said) >= len(said)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan
