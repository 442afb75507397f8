"""When conversations begin in an open loop: seeded sequences of seconds from the run's zero.

Times are not rescaled. `vllm bench serve` stretches Poisson and gamma arrivals so that the last of
N lands at N / rate, which makes the realised rate exact and compresses bursts at the tail. The
first arrival is one gap after zero, except at a constant rate, where it is at zero.
"""

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from netgain.errors import ConfigurationError


class Arrivals(Protocol):
    """A process of arrivals."""

    @property
    def mean_rate(self) -> float:
        """Arrivals per second, over the time it describes."""
        ...

    def offsets(self, seed: int) -> Iterator[float]:
        """Rising seconds from zero, without end; the same for the same seed."""
        ...


@dataclass(frozen=True, slots=True)
class Constant:
    """One arrival every 1 / `rate` seconds."""

    rate: float

    def __post_init__(self) -> None:
        _check("rate", self.rate)

    @property
    def mean_rate(self) -> float:
        """`rate`."""
        return self.rate

    def offsets(self, seed: int) -> Iterator[float]:
        """Nothing is drawn."""
        del seed
        return (count / self.rate for count in itertools.count())

    def __str__(self) -> str:
        return f"constant {self.rate:g}/s"


@dataclass(frozen=True, slots=True)
class Gamma:
    """Gaps drawn from a gamma distribution of shape `burstiness` and mean 1 / `rate`.

    1 is Poisson; below 1 arrivals come in bursts, above 1 more evenly. The gaps' squared
    coefficient of variation is 1 / `burstiness`, as in `vllm bench serve --burstiness`.
    """

    rate: float
    burstiness: float = 1.0

    def __post_init__(self) -> None:
        _check("rate", self.rate)
        _check("burstiness", self.burstiness)

    @property
    def mean_rate(self) -> float:
        """`rate`."""
        return self.rate

    def offsets(self, seed: int) -> Iterator[float]:
        """Sums of gaps."""
        draw = random.Random(seed)  # noqa: S311
        scale = 1.0 / (self.rate * self.burstiness)
        at_s = 0.0
        while True:
            at_s += draw.gammavariate(self.burstiness, scale)
            yield at_s

    def __str__(self) -> str:
        if self.burstiness == 1.0:
            return f"poisson {self.rate:g}/s"
        return f"gamma {self.rate:g}/s, burstiness {self.burstiness:g}"


def poisson(rate: float) -> Gamma:
    """Arrivals that know nothing of each other."""
    return Gamma(rate)


@dataclass(frozen=True, slots=True)
class Ramp:
    """Poisson, its rate going evenly from `first` to `last` within `duration_s`, then staying."""

    first: float
    last: float
    duration_s: float

    def __post_init__(self) -> None:
        _check("first rate", self.first)
        _check("last rate", self.last)
        _check("duration", self.duration_s)

    @property
    def mean_rate(self) -> float:
        """Within `duration_s`."""
        return (self.first + self.last) / 2

    def offsets(self, seed: int) -> Iterator[float]:
        """A Poisson process of rate 1 in the expected number of arrivals, taken back to time."""
        slope = (self.last - self.first) / self.duration_s
        whole = self.mean_rate * self.duration_s
        for expected in poisson(1.0).offsets(seed):
            if expected >= whole:
                yield self.duration_s + (expected - whole) / self.last
            else:
                # The root of first * t + slope * t^2 / 2 = expected that stays exact at slope 0.
                root = (self.first**2 + 2.0 * slope * expected) ** 0.5
                yield 2.0 * expected / (self.first + root)

    def __str__(self) -> str:
        return f"ramp {self.first:g} to {self.last:g}/s in {self.duration_s:g} s"


@dataclass(frozen=True, slots=True)
class Step:
    """Poisson at `rate`, but at `factor` times that from `from_s` to `to_s`.

    `duration_s` is what `mean_rate` is taken over.
    """

    rate: float
    from_s: float
    to_s: float
    duration_s: float
    factor: float = 5.0

    def __post_init__(self) -> None:
        _check("rate", self.rate)
        _check("factor", self.factor)
        if not 0 <= self.from_s < self.to_s <= self.duration_s:
            raise ConfigurationError(
                f"a step from {self.from_s:g} s to {self.to_s:g} s does not lie within a run of "
                f"{self.duration_s:g} s"
            )

    @property
    def mean_rate(self) -> float:
        """Within `duration_s`."""
        stepped_s = self.to_s - self.from_s
        return self.rate * (self.duration_s + (self.factor - 1.0) * stepped_s) / self.duration_s

    def offsets(self, seed: int) -> Iterator[float]:
        """A Poisson process of rate 1 in the expected number of arrivals, taken back to time."""
        before = self.rate * self.from_s
        within = self.rate * self.factor * (self.to_s - self.from_s)
        for expected in poisson(1.0).offsets(seed):
            if expected < before:
                yield expected / self.rate
            elif expected < before + within:
                yield self.from_s + (expected - before) / (self.rate * self.factor)
            else:
                yield self.to_s + (expected - before - within) / self.rate

    def __str__(self) -> str:
        return f"step {self.rate:g}/s, x{self.factor:g} from {self.from_s:g} to {self.to_s:g} s"


def _check(what: str, value: float) -> None:
    if not 0.0 < value < float("inf"):
        raise ConfigurationError(f"a {what} of {value:g} makes no load: give a number above 0")
