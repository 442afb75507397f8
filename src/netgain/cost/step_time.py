"""How long a step takes, as a linear function of what it asks of the device.

A step reads every weight once (the base), does matrix work per token, and attention work per
slice. The coefficients are never assumed: they are fitted to this engine's own steps.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from netgain.errors import ConfigurationError

_FEATURES: Final = 5
_LONGEST_TERM_S: Final = 1e6
_SETTLED: Final = 1e-5
_FIT_EVERY_STEPS: Final = 32
_PACE_GAIN: Final = 0.1
_MOST_SURPRISE: Final = math.log(1.5)


@dataclass(frozen=True, slots=True)
class StepLoad:
    """What a step asks of the device.

    `slices`: sequences taking part. `tokens`: new tokens. `context_tokens`: sum over slices of the
    context each one reads, its own new tokens included. `pairs`: (query, key) pairs of causal
    attention, sum over slices of q*s + q(q+1)/2 for q new tokens after s old ones.
    """

    slices: int = 0
    tokens: int = 0
    context_tokens: int = 0
    pairs: int = 0

    def plus(self, start: int, count: int) -> "StepLoad":
        """This load with one more slice of `count` tokens after `start` old ones."""
        return StepLoad(
            self.slices + 1,
            self.tokens + count,
            self.context_tokens + start + count,
            self.pairs + causal_pairs(start, count),
        )

    @classmethod
    def of(cls, slices: Iterable[tuple[int, int]]) -> "StepLoad":
        """The load of (start, count) slices."""
        load = cls()
        for start, count in slices:
            load = load.plus(start, count)
        return load


def causal_pairs(start: int, count: int) -> int:
    """(query, key) pairs when `count` tokens follow `start` old ones, each seeing itself too."""
    return count * start + count * (count + 1) // 2


@dataclass(frozen=True, slots=True)
class StepTimeModel:
    """Seconds of a step: base + per slice + per token + per context token + per pair."""

    base_s: float
    slice_s: float
    token_s: float
    context_s: float
    pair_s: float

    def __post_init__(self) -> None:
        """Raises `ConfigurationError` for a term that is negative or not a number."""
        for name in ("base_s", "slice_s", "token_s", "context_s", "pair_s"):
            seconds = getattr(self, name)
            if not 0.0 <= seconds < _LONGEST_TERM_S:
                raise ConfigurationError(
                    f"{name} is {seconds}: give seconds from 0 to {_LONGEST_TERM_S:g}"
                )

    def step_s(self, load: StepLoad) -> float:
        """Seconds a step of this load takes; 0 for an empty one."""
        if not load.slices:
            return 0.0
        return (
            self.base_s
            + self.slice_s * load.slices
            + self.token_s * load.tokens
            + self.context_s * load.context_tokens
            + self.pair_s * load.pairs
        )

    def slice_own_s(self, start: int, count: int) -> float:
        """Seconds one slice adds to a step, without a share of the base."""
        return (
            self.slice_s
            + self.token_s * count
            + self.context_s * (start + count)
            + self.pair_s * causal_pairs(start, count)
        )

    def prefill_s(self, start: int, count: int, chunk_tokens: int) -> float:
        """Seconds to prefill `count` tokens after `start` in chunks of `chunk_tokens`, alone."""
        seconds = 0.0
        while count > 0:
            chunk = min(count, chunk_tokens)
            seconds += self.base_s + self.slice_own_s(start, chunk)
            start += chunk
            count -= chunk
        return seconds

    def largest_chunk(self, load: StepLoad, start: int, target_s: float) -> int:
        """Most tokens a new slice starting at `start` may add so that the step stays in target.

        Solves a*n^2 + b*n + c <= target for n; 0 if not even one token fits.
        """
        quadratic = self.pair_s / 2
        linear = self.token_s + self.context_s + self.pair_s * (start + 0.5)
        fixed = (
            self.base_s
            + self.slice_s * (load.slices + 1)
            + self.token_s * load.tokens
            + self.context_s * (load.context_tokens + start)
            + self.pair_s * load.pairs
        )
        room = target_s - fixed
        if room <= 0:
            return 0
        # The root's other form, -c / (b + sqrt(...)): the usual one cancels when a is tiny.
        slope = (linear + math.sqrt(linear * linear + 4 * quadratic * room)) / 2
        if room >= slope * (1 << 30):
            return 1 << 30
        return int(room / slope)


class StepTimeEstimator:
    """Fits a `StepTimeModel` to observed steps: a slowly learnt shape times a quickly learnt pace.

    The shape is found by recursive non-negative least squares. Errors count relative to the step's
    length, so that short decode steps weigh as much as long chunks; old observations fade with
    `memory_steps`. The pace follows a machine that slows down or recovers within some tens of
    steps; one stretched step moves it by a few percent at most. Deterministic given what it
    observed.
    """

    def __init__(
        self, observations: Iterable[tuple[StepLoad, float]] = (), memory_steps: int = 512
    ) -> None:
        self._keep = 1.0 - 1.0 / memory_steps
        self._gram = [[0.0] * _FEATURES for _ in range(_FEATURES)]
        self._moment = [0.0] * _FEATURES
        self._theta = [0.0] * _FEATURES
        self._weight = 0.0
        self._since_fit = 0
        self._fit_after = 1
        self._pace = 1.0
        for load, seconds in observations:
            self._add(load, seconds)
        self._fit(sweeps=5000)
        self.model = self._paced()

    def observe(self, load: StepLoad, seconds: float) -> None:
        """Takes one measured step in; the model follows every few steps."""
        if seconds <= 0 or not load.slices:
            return
        shape_s = StepTimeModel(*self._theta).step_s(load)
        if shape_s > 0:
            surprise = math.log(seconds / (shape_s * self._pace))
            bounded = max(-_MOST_SURPRISE, min(_MOST_SURPRISE, surprise))
            self._pace *= math.exp(_PACE_GAIN * bounded)
        # A step that a descheduled thread stretched says little about the shape, and weighs little:
        # errors count relative to its own length. Cutting it short would give it weight.
        self._add(load, seconds / self._pace)
        self._since_fit += 1
        if self._since_fit >= self._fit_after:
            # Often at first: a machine that was busy during warm-up must not be believed for long.
            self._fit_after = min(2 * self._fit_after, _FIT_EVERY_STEPS)
            self._fit(sweeps=200)
        self.model = self._paced()

    def _paced(self) -> StepTimeModel:
        return StepTimeModel(*(value * self._pace for value in self._theta))

    def _add(self, load: StepLoad, seconds: float) -> None:
        row = [
            feature / seconds
            for feature in (1.0, load.slices, load.tokens, load.context_tokens, load.pairs)
        ]
        self._weight = self._weight * self._keep + 1.0
        for i, left in enumerate(row):
            self._moment[i] = self._moment[i] * self._keep + left
            gram = self._gram[i]
            for j, right in enumerate(row):
                gram[j] = gram[j] * self._keep + left * right

    def _fit(self, sweeps: int) -> None:
        """Coordinate descent on the normal equations, each coefficient kept at or above zero."""
        theta = self._theta
        for _ in range(sweeps):
            moved = 0.0
            for i, gram in enumerate(self._gram):
                diagonal = gram[i]
                if diagonal > 0:
                    before = theta[i]
                    after = max(0.0, before + (self._moment[i] - _dot(gram, theta)) / diagonal)
                    theta[i] = after
                    # In units of what the coefficient adds to the mean relative prediction.
                    moved = max(moved, abs(after - before) * math.sqrt(diagonal))
            if moved < _SETTLED * math.sqrt(self._weight):
                break
        self._since_fit = 0


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    a, b, c, d, e = left
    v, w, x, y, z = right
    return a * v + b * w + c * x + d * y + e * z
