"""Waiting, from rates alone.

Sources: Little's law; Pollaczek-Khinchine (M/G/1); Erlang C and Allen-Cunneen (several servers).
"""

import math
from dataclasses import dataclass
from typing import Final

from netgain.cost.bounds import at_least_zero, below_one, count, positive

_NOBODY: Final = 1e18
"""One arrival of so many is none."""


@dataclass(frozen=True, slots=True)
class Service:
    """How long one server works for one request: mean and squared coefficient of variation."""

    mean_s: float
    variation: float = 1.0

    def __post_init__(self) -> None:
        """Raises `ConfigurationError` for a mean of 0 or a negative variation."""
        positive("mean_s", self.mean_s)
        at_least_zero("variation", self.variation)

    @classmethod
    def of(cls, seconds: list[float]) -> "Service":
        """From observed service times. Raises `ConfigurationError` where there are none."""
        count("observed service times", len(seconds))
        mean = sum(seconds) / len(seconds)
        variance = sum((value - mean) ** 2 for value in seconds) / len(seconds)
        return cls(mean, variance / mean**2)


def utilisation(rate_per_s: float, service: Service, servers: int = 1) -> float:
    """Share of time the servers work: rate x mean / servers. From 1 on the queue grows for ever."""
    return at_least_zero("rate_per_s", rate_per_s) * service.mean_s / count("servers", servers)


def waiting_s(
    rate_per_s: float, service: Service, servers: int = 1, arrivals: float = 1.0
) -> float:
    """Mean wait in queue: Allen-Cunneen, exact for one server with Poisson arrivals.

    (C_a^2 + C_s^2) / 2 x the wait of M/M/c. `arrivals` is C_a^2, 1 for Poisson. Infinite from a
    utilisation of 1 on.
    """
    load = utilisation(rate_per_s, service, servers)
    if load >= 1:
        return math.inf
    if load == 0:
        return 0.0
    memoryless = erlang_c(load * servers, servers) * service.mean_s / (servers * (1 - load))
    return (arrivals + service.variation) / 2 * memoryless


def erlang_c(offered: float, servers: int) -> float:
    """Chance that an arrival waits, M/M/c; `offered` is rate x mean, below `servers`."""
    # Erlang B as a series: 1 / B = 1 + c / a (1 + (c - 1) / a (...)), whose terms soon vanish, or
    # grow until nobody is blocked: some roots of c of them, where recursion takes all c.
    term = inverse = 1.0
    for busy in range(servers, 0, -1):
        term *= busy / offered
        inverse += term
        if term < 1e-17 * inverse or inverse > _NOBODY:
            break
    blocked = 1.0 / inverse
    load = offered / servers
    return blocked / (1 - load + load * blocked)


def wait_quantile_s(rate_per_s: float, service: Service, share: float, servers: int = 1) -> float:
    """Wait that a `share` of requests stays below, the tail taken as exponential.

    Exact for M/M/c; for other service times the tail's mean is that of `waiting_s`.
    """
    below_one("share", share)
    load = utilisation(rate_per_s, service, servers)
    if load >= 1:
        return math.inf
    if load == 0:
        return 0.0
    waits = erlang_c(load * servers, servers)
    if 1 - share >= waits:
        return 0.0
    return waiting_s(rate_per_s, service, servers) / waits * math.log(waits / (1 - share))
