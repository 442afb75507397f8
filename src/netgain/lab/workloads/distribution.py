"""Lengths and times by distribution, written in a few characters."""

import math
import random
from dataclasses import dataclass
from typing import Final, Protocol

_FORMS: Final = (
    "a number (256), a range (128..512, uniform), or lognormal/MEDIAN/SIGMA with optional limits "
    "(lognormal/512/0.8/16..4096)"
)


class Distribution(Protocol):
    """Draws one number at a time; `str()` of it is what `parse_distribution` reads."""

    @property
    def mean(self) -> float:
        """Of many draws; limits of a lognormal are left out of account."""
        ...

    def draw(self, rng: random.Random) -> float:
        """The next number."""
        ...


@dataclass(frozen=True, slots=True)
class Fixed:
    """Always the same number."""

    value: float

    @property
    def mean(self) -> float:
        """The number."""
        return self.value

    def draw(self, rng: random.Random) -> float:  # noqa: ARG002 - the protocol's
        """The number."""
        return self.value

    def __str__(self) -> str:
        return f"{self.value:g}"


@dataclass(frozen=True, slots=True)
class Uniform:
    """Every number from `low` to `high` equally likely."""

    low: float
    high: float

    @property
    def mean(self) -> float:
        """The middle."""
        return (self.low + self.high) / 2

    def draw(self, rng: random.Random) -> float:
        """The next number."""
        return rng.uniform(self.low, self.high)

    def __str__(self) -> str:
        return f"{self.low:g}..{self.high:g}"


@dataclass(frozen=True, slots=True)
class LogNormal:
    """exp of a normal variable: median `median`, standard deviation of the logarithm `sigma`.

    A draw outside `low` to `high` is moved to the nearer limit.
    """

    median: float
    sigma: float
    low: float = 0.0
    high: float = math.inf

    @property
    def mean(self) -> float:
        """median x exp(sigma^2 / 2)."""
        return self.median * math.exp(self.sigma**2 / 2)

    def draw(self, rng: random.Random) -> float:
        """The next number."""
        drawn = self.median * math.exp(rng.gauss(0.0, self.sigma))
        return min(max(drawn, self.low), self.high)

    def __str__(self) -> str:
        text = f"lognormal/{self.median:g}/{self.sigma:g}"
        if (self.low, self.high) == (0.0, math.inf):
            return text
        return f"{text}/{self.low:g}..{'' if math.isinf(self.high) else format(self.high, 'g')}"


def parse_distribution(text: str) -> Distribution:
    """`256`, `128..512` or `lognormal/512/0.8[/16..4096]`. Raises `ValueError` saying the forms."""
    try:
        parts = text.strip().split("/")
        if parts[0] == "lognormal":
            return _lognormal(parts[1:])
        if len(parts) == 1 and ".." in text:
            low, high = _range(text)
            if math.isinf(high):
                raise ValueError("a uniform range needs both ends")
            return Uniform(low, high)
        (number,) = parts
        return Fixed(_number(number))
    except ValueError as error:
        raise ValueError(f"{text!r} is no distribution ({error}): write {_FORMS}") from None


def whole(distribution: Distribution, rng: random.Random, least: int = 1) -> int:
    """A drawn number of tokens, rounded, at least `least`."""
    return max(least, round(distribution.draw(rng)))


def _lognormal(parts: list[str]) -> LogNormal:
    if len(parts) not in (2, 3):
        raise ValueError("lognormal takes a median and a sigma")
    median, sigma = _number(parts[0]), _number(parts[1])
    if median <= 0:
        raise ValueError("the median must be above 0")
    low, high = _range(parts[2]) if len(parts) == 3 else (0.0, math.inf)
    return LogNormal(median, sigma, low, high)


def _range(text: str) -> tuple[float, float]:
    low_text, _, high_text = text.partition("..")
    low = _number(low_text)
    high = _number(high_text) if high_text.strip() else math.inf
    if low > high:
        raise ValueError(f"{low:g} is above {high:g}")
    return low, high


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number) or number < 0:
        raise ValueError("a number must be finite and not negative")
    return number
