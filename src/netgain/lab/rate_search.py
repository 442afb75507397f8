"""The highest request rate that meets a service level, with confidence.

A pure state machine says which run it wants next; whoever drives it makes the run and tells. First
the answer is bracketed by doubling or halving, then the bracket is bisected (geometrically, since
rates are ratios). No rate is accepted from one run. Where the runs so far do not tell, the next is
twice as long; and the rate that would be the answer must hold in longer runs as well: just above
capacity a queue grows so slowly that a short run looks fine.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import NormalDist
from typing import Final

from netgain.errors import ConfigurationError, NetgainError
from netgain.lab.metrics.estimate import LEVEL
from netgain.lab.metrics.run_metrics import RunMetrics
from netgain.lab.rate_point import RatePoint, RunAtRate, Verdict

_MOST_DURATION: Final = 8.0
"""A run at a low rate is lengthened to at most this many times the search's duration."""


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """Where to look and how hard.

    `first`: the rate tried first, requests/s. The answer lies in [`lowest`, `highest`].
    `precision`: stop when the bracket's upper end is at most this share above the lower.
    `duration_s`: of a run (longer at rates so low that it would hold too few requests).
    `fewest_runs`, `most_runs`: at one rate, each beyond the fewest twice as long as the one before,
    but for the confirming ones. `confirming`: how many times as long the confirming
    runs are. `budget_runs`, `budget_s`: over the whole search, in runs and in seconds of load.
    """

    first: float = 1.0
    lowest: float = 1 / 64
    highest: float = 4096.0
    precision: float = 0.1
    duration_s: float = 30.0
    fewest_runs: int = 2
    most_runs: int = 4
    confirming: float = 3.0
    budget_runs: int = 60
    budget_s: float = math.inf

    def __post_init__(self) -> None:
        """Raises `ConfigurationError` for limits that cannot be searched."""
        if not 0 < self.lowest <= self.first <= self.highest:
            raise ConfigurationError(
                f"cannot search rates: need 0 < lowest ({self.lowest:g}) <= first ({self.first:g}) "
                f"<= highest ({self.highest:g})"
            )
        if self.precision <= 0 or self.duration_s <= 0 or self.confirming < 1:
            raise ConfigurationError("precision and duration must be above 0, confirming 1 or more")
        if not (self.budget_s > 0 and self.budget_runs > 0):
            raise ConfigurationError(f"a search needs a budget above 0, not {self.budget_s:g} s")
        if not 1 <= self.fewest_runs <= self.most_runs:
            raise ConfigurationError("need 1 <= fewest runs <= most runs")


class Outcome(StrEnum):
    """How a search ended."""

    FOUND = "found"
    """Bracketed to the precision asked for, and confirmed."""
    LOWEST_MISSES = "lowest misses"
    """Even the lowest rate does not meet the level."""
    NEVER_MISSED = "never missed"
    """The highest rate still meets the level."""
    NOT_OFFERED = "not offered"
    """The load generator, not the server, was the limit."""
    OUT_OF_BUDGET = "out of budget"
    STOPPED = "stopped"
    """A run failed; what was found until then stands."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One run wanted; `repeat` differs in every run of a search, so that its seed can."""

    rate: float
    repeat: int
    duration_s: float


@dataclass(frozen=True, slots=True)
class RateAnswer:
    """`rate`: the highest rate that met the level; None when none did.

    `below`: the lowest rate known to miss it; None when none did. The true answer lies between the
    two, with the confidence of the verdicts (95 % each). `curve`: every rate tried, ascending.
    """

    outcome: Outcome
    rate: float | None
    below: float | None
    curve: tuple[RatePoint, ...]
    runs: int
    load_s: float
    message: str

    @property
    def sentence(self) -> str:
        """The answer in words."""
        between = "" if self.below is None else f"; {self.below:.3g}/s is too much"
        match self.outcome:
            case Outcome.FOUND:
                return f"Up to {self.rate:.3g} requests/s meet the SLO{between}."
            case Outcome.LOWEST_MISSES:
                return (
                    f"Even the lowest rate tried misses the SLO: {self.below or 0:.3g} requests/s."
                )
            case Outcome.NEVER_MISSED:
                return f"The SLO was met up to {self.rate:.3g} requests/s, the highest rate tried."
            case Outcome.NOT_OFFERED:
                limit = "" if self.rate is None else f" {self.rate:.3g} requests/s meet the SLO;"
                return (
                    f"The load generator was the limit:{limit} beyond, it could not keep its times."
                )
            case Outcome.OUT_OF_BUDGET | Outcome.STOPPED:
                found = (
                    "no rate is known to meet the SLO"
                    if self.rate is None
                    else f"{self.rate:.3g} requests/s meet the SLO"
                )
                return f"Unfinished ({self.message}): {found}{between}."


@dataclass(slots=True)
class _Tried:
    """Runs at one rate, short ones and confirming ones apart."""

    short: list[RunAtRate] = field(default_factory=list)
    long: list[RunAtRate] = field(default_factory=list)


class RateSearch:
    """`wants()` gives the next run, None when done; `tell()` takes its metrics; `answer()` ends."""

    def __init__(self, demanded: float, limits: SearchLimits | None = None) -> None:
        """`demanded`: the share of requests that must be good (the level's attainment)."""
        self._demanded = demanded
        self._limits = limits or SearchLimits()
        self._tried: dict[float, _Tried] = {}
        self._rate = self._limits.first
        self._confirming = False
        self._runs = 0
        self._load_s = 0.0
        self._outcome: Outcome | None = None
        self._message = ""

    def wants(self) -> Ask | None:
        """The run to make next; None when the search has ended."""
        if self._outcome is not None:
            return None
        duration_s = self._duration_s()
        if self._runs >= self._limits.budget_runs:
            self._end(Outcome.OUT_OF_BUDGET, f"{self._runs} runs made")
            return None
        if self._load_s + duration_s > self._limits.budget_s:
            self._end(Outcome.OUT_OF_BUDGET, f"{self._load_s:.0f} s of load made")
            return None
        return Ask(self._rate, self._runs, duration_s)

    def tell(self, ask: Ask, metrics: RunMetrics) -> None:
        """The metrics, computed with the SLO, of the run asked for."""
        self.tell_run(RunAtRate.of(ask.rate, ask.repeat, metrics), ask.duration_s)

    def tell_run(self, run: RunAtRate, duration_s: float) -> None:
        """The same from what the search keeps of a run."""
        self._runs += 1
        self._load_s += duration_s
        tried = self._tried.setdefault(run.rate, _Tried())
        (tried.long if self._confirming else tried.short).append(run)
        self._decide()

    def stop(self, reason: str) -> None:
        """Ends the search before its time."""
        if self._outcome is None:
            self._end(Outcome.STOPPED, reason)

    def answer(self) -> RateAnswer:
        """What is known now."""
        curve = tuple(self.point(rate) for rate in sorted(self._tried))
        meets, misses = self._highest_meeting(), self._lowest_missing()
        return RateAnswer(
            self._outcome or Outcome.STOPPED,
            meets,
            misses,
            curve,
            self._runs,
            self._load_s,
            self._message or ("" if self._outcome else "still searching"),
        )

    def _duration_s(self) -> float:
        """Long enough for the requests that `fewest_runs` perfect runs need to convince."""
        limits = self._limits
        per_run = requests_needed(self._demanded) / limits.fewest_runs
        # A quarter of a run may go to warm-up.
        enough_s = 1.5 * per_run / self._rate
        duration_s = min(max(limits.duration_s, enough_s), _MOST_DURATION * limits.duration_s)
        if self._confirming:
            return duration_s * limits.confirming
        return duration_s * 2.0 ** max(0, self._made() - limits.fewest_runs + 1)

    def _made(self) -> int:
        """Runs at the present rate, of the present kind."""
        tried = self._tried.get(self._rate)
        if tried is None:
            return 0
        return len(tried.long if self._confirming else tried.short)

    def point(self, rate: float) -> RatePoint:
        """All runs at a rate tried; long runs decide alone once there are any."""
        tried = self._tried[rate]
        deciding = tried.long or tried.short
        fewest = self._limits.fewest_runs
        return RatePoint.judge(rate, deciding, self._demanded, fewest)

    def _decide(self) -> None:
        point = self.point(self._rate)
        if point.verdict is Verdict.UNDECIDED and self._made() < self._limits.most_runs:
            return
        self._confirming = False
        self._move()

    def _move(self) -> None:
        """Where next, from everything known."""
        limits = self._limits
        low, high = self._highest_meeting(), self._lowest_not_meeting()
        if low is None:
            assert high is not None
            if high <= limits.lowest:
                self._end(self._lowest_outcome(high), "")
            else:
                self._rate = max(limits.lowest, high / 2)
        elif high is None:
            if low < limits.highest:
                self._rate = min(limits.highest, low * 2)
            elif not self._confirm(low):
                self._end(Outcome.NEVER_MISSED, "")
        elif high / low <= 1 + limits.precision:
            if not self._confirm(low):
                offered = self.point(high).verdict is not Verdict.NOT_OFFERED
                self._end(Outcome.FOUND if offered else Outcome.NOT_OFFERED, "")
        else:
            self._rate = math.sqrt(low * high)

    def _confirm(self, rate: float) -> bool:
        """Goes on to longer runs at this rate, unless it has had them or none are wanted."""
        if self._limits.confirming <= 1 or self._tried[rate].long:
            return False
        self._rate, self._confirming = rate, True
        return True

    def _lowest_outcome(self, rate: float) -> Outcome:
        match self.point(rate).verdict:
            case Verdict.MISSES:
                return Outcome.LOWEST_MISSES
            case Verdict.NOT_OFFERED:
                return Outcome.NOT_OFFERED
            case _:
                self._message = "the lowest rate stayed undecided: make runs longer"
                return Outcome.OUT_OF_BUDGET

    def _highest_meeting(self) -> float | None:
        """The highest rate that meets the level and below which none is known to miss it."""
        missing = self._lowest_missing()
        rates = [
            rate
            for rate in self._tried
            if self.point(rate).verdict is Verdict.MEETS and (missing is None or rate < missing)
        ]
        return max(rates, default=None)

    def _lowest_missing(self) -> float | None:
        rates = [r for r in self._tried if self.point(r).verdict is Verdict.MISSES]
        return min(rates, default=None)

    def _lowest_not_meeting(self) -> float | None:
        """The bracket's upper end: missing, undecided after all its runs, or not offered."""
        low = self._highest_meeting() or 0.0
        rates = [
            rate
            for rate in self._tried
            if rate > low and self.point(rate).verdict is not Verdict.MEETS
        ]
        return min(rates, default=None)

    def _end(self, outcome: Outcome, message: str) -> None:
        self._outcome = outcome
        self._message = self._message or message


def requests_needed(demanded: float) -> int:
    """How many requests, all good, are the least that can show a share of `demanded` at `LEVEL`.

    Wilson's lower bound of n out of n is n / (n + z^2).
    """
    z = NormalDist().inv_cdf((1 + LEVEL) / 2)
    return math.ceil(z * z * demanded / (1 - demanded)) if demanded < 1 else 10_000


def find_rate(
    measure: Callable[[Ask], RunMetrics],
    demanded: float,
    limits: SearchLimits | None = None,
    on_point: Callable[[RatePoint], None] = lambda _: None,
) -> RateAnswer:
    """Drives a search with `measure`, which makes a run and computes its metrics with the SLO.

    A `NetgainError` from a run ends the search; what was found until then is in the answer.
    `on_point` hears after every run what its rate's runs say together.
    """
    search = RateSearch(demanded, limits)
    while (ask := search.wants()) is not None:
        try:
            search.tell(ask, measure(ask))
        except NetgainError as error:
            search.stop(str(error))
            break
        on_point(search.point(ask.rate))
    return search.answer()
