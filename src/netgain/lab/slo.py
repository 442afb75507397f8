"""The questions to fix before optimising: what is fast enough, for how many, how often."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

DEFAULT_ATTAINMENT: Final = 0.95
DEFAULT_OF_TOKENS: Final = 0.95


class Objective(StrEnum):
    """A latency that can be limited, as the metrics define it."""

    TTFT = "ttft"
    ITL = "itl"
    TPOT = "tpot"
    E2E = "e2e"


class Priority(StrEnum):
    """What matters most."""

    QUALITY = "quality"
    LATENCY = "latency"
    THROUGHPUT = "throughput"
    COST = "cost"


@dataclass(frozen=True, slots=True)
class Limit:
    """One latency's limit.

    A request meets it when its latency is at most `limit_s`; for ITL, when at least `of_tokens` of
    its own token gaps are. `share` of all requests must meet it (None: no demand of its own beyond
    the level's attainment). Below `good_enough_s` faster earns nothing.
    """

    objective: Objective
    limit_s: float
    share: float | None = None
    good_enough_s: float | None = None
    of_tokens: float = DEFAULT_OF_TOKENS


@dataclass(frozen=True, slots=True)
class ServiceLevel:
    """Limits, and the share of requests (`attainment`) that must meet all of them.

    `concurrency`: how many at once. `peak_factor`: how many times the base load it must hold at the
    peak.
    """

    limits: tuple[Limit, ...]
    attainment: float = DEFAULT_ATTAINMENT
    concurrency: int | None = None
    matters_most: Priority | None = None
    peak_factor: float | None = None

    def limit(self, objective: Objective) -> Limit | None:
        """The limit on this latency, if there is one."""
        return next((limit for limit in self.limits if limit.objective is objective), None)
