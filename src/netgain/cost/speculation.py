"""What speculative decoding gains and what it costs.

A drafter proposes K tokens, the target scores K + 1 positions at once and keeps the accepted run
and one token of its own (the bonus). Sources: Leviathan et al., arXiv 2211.17192 (E, S, operations
acceptance from distributions); batch-aware form: the same with every time a function of
the batch.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul

from netgain.cost.bounds import at_least_zero, count, fraction, positive


def acceptance_of(target: Sequence[float], draft: Sequence[float]) -> float:
    """Chance that a draft drawn from `draft` is kept by `target`: sum of min(p, q).

    Both are distributions over the same tokens. Source: Leviathan et al., equal to one minus their
    total variation distance.
    """
    return sum(min(p, q) for p, q in zip(target, draft, strict=True))


def acceptance_per_token(target: Sequence[float], draft: Sequence[float]) -> tuple[float, ...]:
    """Chance that each drafted token is kept: min(1, p / q); 1 where it is never drafted."""
    return tuple(1.0 if q == 0 else min(1.0, p / q) for p, q in zip(target, draft, strict=True))


def residual(target: Sequence[float], draft: Sequence[float]) -> tuple[float, ...]:
    """Distribution that a token is drawn from after a rejection: normalise(max(0, p - q)).

    All zeros where the two agree: nothing is ever rejected then.
    """
    excess = [max(0.0, p - q) for p, q in zip(target, draft, strict=True)]
    whole = sum(excess)
    return tuple(value / whole if whole else 0.0 for value in excess)


def expected_accepted_tokens(acceptance: float, depth: int) -> float:
    """Drafts kept per iteration: a + a^2 + ... + a^K, for independent acceptance `a`."""
    fraction("acceptance", acceptance)
    count("depth", depth, least=0)
    return math.fsum(acceptance**position for position in range(1, depth + 1))


def tokens_per_iteration(acceptance: float, depth: int) -> float:
    """E: drafts kept plus the bonus token, (1 - a^(K+1)) / (1 - a); K + 1 where a is 1."""
    return 1.0 + expected_accepted_tokens(acceptance, depth)


def tokens_per_iteration_measured(conditional: Sequence[float]) -> float:
    """E from measured acceptance per position, each given that all before it were accepted.

    1 + sum over j of the product of the first j.
    """
    for position, rate in enumerate(conditional):
        fraction(f"acceptance at position {position}", rate)
    return 1.0 + math.fsum(accumulate(conditional, mul))


def acceptance_for(tokens: float, depth: int) -> float:
    """The independent acceptance that gives `tokens` per iteration at this depth.

    Found by bisection; E grows with it. `tokens` is from 1 to depth + 1.
    """
    count("depth", depth)
    fraction("(tokens per iteration - 1) / depth", (tokens - 1) / depth)
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if tokens_per_iteration(middle, depth) < tokens:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def speed_up(acceptance: float, depth: int, draft_ratio: float) -> float:
    """S = E / (K c + 1) where verifying costs what a plain step does (batch 1, spare compute).

    `draft_ratio`: c, one drafted token's time over a plain step's.
    """
    at_least_zero("draft_ratio", draft_ratio)
    return tokens_per_iteration(acceptance, depth) / (depth * draft_ratio + 1.0)


def gain_exists(acceptance: float, draft_ratio: float) -> bool:
    """Whether any depth gains at batch 1: exactly where a > c."""
    return fraction("acceptance", acceptance) > at_least_zero("draft_ratio", draft_ratio)


def break_even_acceptance(depth: int, step_ratio: float) -> float | None:
    """The acceptance at which an iteration pays for itself: E = `step_ratio`.

    `step_ratio`: the whole iteration's time (drafts, verification, overhead) over a plain step's.
    0 where the iteration is no dearer than a step, None where even a = 1 does not pay.
    """
    positive("step_ratio", step_ratio)
    if step_ratio <= 1.0:
        return 0.0
    if step_ratio > depth + 1:
        return None
    return acceptance_for(step_ratio, depth)


@dataclass(frozen=True, slots=True)
class IterationTimes:
    """What one iteration at some batch takes, and what a plain step of it does. Seconds.

    `draft_s` is one drafted token of every sequence, `verify_s` the target's pass over K + 1
    positions of every sequence, `over_s` sampling, rejected states and launches on top.
    """

    decode_s: float
    draft_s: float
    verify_s: float
    over_s: float = 0.0

    def iteration_s(self, depth: int) -> float:
        """K drafts, one verification, the overhead."""
        return depth * self.draft_s + self.verify_s + self.over_s

    def step_ratio(self, depth: int) -> float:
        """An iteration's time over a plain step's."""
        return self.iteration_s(depth) / positive("decode_s", self.decode_s)


def batch_speed_up(tokens: float, depth: int, times: IterationTimes) -> float:
    """S(B) = E T_dec(B) / (K T_draft(B) + T_verify(B (K+1)) + T_over); 1 for depth 0.

    `tokens`: E. Depth 0 is a plain step, which speculation switched off must cost nothing to.
    """
    if depth == 0:
        return 1.0
    return tokens / positive("step_ratio", times.step_ratio(depth))


def best_depth(
    acceptance: float, deepest: int, times: Callable[[int], IterationTimes]
) -> tuple[int, float]:
    """The depth of the largest S(B), 0 ("off") included, and that speed-up.

    `times(depth)` gives an iteration's times at the batch in question.
    """
    best = (0, 1.0)
    for depth in range(1, deepest + 1):
        gain = batch_speed_up(tokens_per_iteration(acceptance, depth), depth, times(depth))
        if gain > best[1]:
            best = (depth, gain)
    return best


def gaining_batches(gain: Callable[[int], float], largest: int = 1 << 14) -> tuple[int, ...]:
    """Powers of two up to `largest` at which `gain(batch)`, S(B), is above 1.

    Not always the small ones: a mixture of experts verifies a few tokens dearly, by other experts
    for each, and many hardly dearer than it decodes them.
    """
    batches = (1 << power for power in range(count("largest", largest).bit_length()))
    return tuple(batch for batch in batches if gain(batch) > 1.0)


def break_even_batch(gain: Callable[[int], float], largest: int = 1 << 14) -> int | None:
    """The batch from which on speculation gains no more; 1: at none. None: it still does at
    `largest`. `gain(batch)`: S(B) at the depth in question.
    """
    gaining = gaining_batches(gain, largest)
    if not gaining:
        return 1
    low, high = gaining[-1], 2 * gaining[-1]
    if high > largest:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if gain(middle) > 1.0 else (low, middle)
    return high


def rejected_tokens(acceptance: float, depth: int) -> float:
    """Drafts thrown away per iteration: K - (a + ... + a^K)."""
    return depth - expected_accepted_tokens(acceptance, depth)
