"""Draws from logits of the test's choosing, on any backend, and what they should be.

Dimensions: N rows, V vocabulary.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray
from tests.ops.probes import NO_ROTATION, matrix
from tests.paged import flat_inputs

from netgain.kv.geometry import KVGroup
from netgain.ops.backend import Backend, StepRunner
from netgain.ops.draws import Draws, Shaping
from netgain.ops.interface import StepOps, Value
from netgain.ops.weights import LinearWeight

DRAWS: Final = 6000
LOGITS: Final = [2.0, -1.0, 0.5, 1.9, 0.0, -3.0, 1.0, 0.4, -0.2, 2.2]


@dataclass(frozen=True)
class LogitsProbe:
    """A "model" whose logits are the table's rows."""

    table: LinearWeight
    inverse_frequencies: NDArray[np.float32] = field(default_factory=lambda: NO_ROTATION)

    def forward(self, ops: StepOps[Value]) -> Value:
        return ops.logit_rows(ops.embedding(self.table))


@dataclass(frozen=True)
class How:
    """How to draw one row."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0


@dataclass(frozen=True)
class Row:
    how: How
    seed: int
    position: int
    shaping: Shaping | None = None


def runner_over(ops: Backend, logits_NV: NDArray[np.float32], rows: int) -> StepRunner:
    """A runner whose token ids stand for rows of logits."""
    probe = LogitsProbe(matrix(ops, logits_NV, embedding=True))
    group = KVGroup("full", (0,), 1, 16, 16, ops.traits.kv_dtype)
    return ops.runner(probe, [group], -(-rows // 16) + 1, rows, rows)


def sample(ops: Backend, logits_NV: NDArray[np.float32], rows: Sequence[Row]) -> list[int]:
    """One token per row of logits."""
    count = len(rows)
    ids = [index % len(logits_NV) for index in range(count)]
    inputs = flat_inputs(ids, [(0, count)], [list(range(1, -(-count // 16) + 1))], range(count))
    return runner_over(ops, logits_NV, count).run(inputs, draws_of(rows))


def draws_of(rows: Sequence[Row]) -> Draws:
    min_p_N = np.array([row.how.min_p for row in rows], np.float32)
    return Draws(
        np.array([row.how.temperature for row in rows], np.float32),
        np.array([row.how.top_k for row in rows], np.int32),
        np.array([row.how.top_p for row in rows], np.float32),
        np.array([row.seed % (1 << 64) for row in rows], np.uint64),
        np.array([row.position for row in rows], np.int64),
        min_p_N if min_p_N.any() else None,
        tuple(
            replace(row.shaping, row=index)
            for index, row in enumerate(rows)
            if row.shaping is not None
        ),
    )


def draw(
    ops: Backend,
    logits: Sequence[float] | NDArray[np.float32],
    how: How,
    count: int,
    seed: int,
    shaping: Shaping | None = None,
) -> Counter[int]:
    rows = [Row(how, seed, position, shaping) for position in range(count)]
    return Counter(sample(ops, np.array([logits], np.float32), rows))


def exact_distribution(logits: Sequence[float], how: How) -> list[float]:
    """Temperature, top_k, top_p, min_p, one plain loop each; of equals the lower id first."""
    order = sorted(range(len(logits)), key=lambda token: -logits[token])
    if how.top_k > 0:
        order = order[: how.top_k]
    weights = {token: math.exp(logits[token] / how.temperature) for token in order}
    total = sum(weights.values())
    kept: dict[int, float] = {}
    reached = 0.0
    for token in order:
        if reached >= how.top_p:
            break
        kept[token] = weights[token] / total
        reached += kept[token]
    least = max(logits) + how.temperature * math.log(how.min_p) if how.min_p else -math.inf
    kept = {token: share for token, share in kept.items() if logits[token] >= least}
    return [kept.get(token, 0.0) / sum(kept.values()) for token in range(len(logits))]


def shaping(
    row: int = 0,
    *,
    bias: dict[int, float] | None = None,
    banned: Sequence[int] = (),
    seen: dict[int, int] | None = None,
    repetition: float = 1.0,
    frequency: float = 0.0,
    presence: float = 0.0,
) -> Shaping:
    """`seen`: how often each token is in the answer, 0 for those of the prompt only."""
    bias, seen = bias or {}, seen or {}
    return Shaping(
        row,
        np.array(list(bias), np.int32),
        np.array(list(bias.values()), np.float32),
        np.array(banned, np.int32),
        np.array(list(seen), np.int32),
        np.array(list(seen.values()), np.int32),
        repetition,
        frequency,
        presence,
    )


def shaped(logits: Sequence[float], how: Shaping) -> list[float]:
    """The definition, one plain loop each."""
    made = list(logits)
    for token, bias in zip(how.bias_ids_A.tolist(), how.bias_A.tolist(), strict=True):
        made[token] += bias
    for token in how.banned_ids_B.tolist():
        made[token] = -math.inf
    for token, count in zip(how.seen_ids_C.tolist(), how.seen_counts_C.tolist(), strict=True):
        if made[token] > 0:
            made[token] /= how.repetition
        else:
            made[token] *= how.repetition
        made[token] -= how.frequency * count
        made[token] -= how.presence * (count > 0)
    return made


def assert_follows(drawn: Counter[int], exact: Sequence[float]) -> None:
    """Chi-square, at the 99.99 % point."""
    count = drawn.total()
    assert {token for token in drawn if not exact[token]} == set()
    possible = [token for token in range(len(exact)) if exact[token]]
    chi_square = sum(
        (drawn[token] - count * exact[token]) ** 2 / (count * exact[token]) for token in possible
    )
    freedom = len(possible) - 1
    if not freedom:
        return  # one token, always drawn: nothing else was possible
    # Wilson and Hilferty's approximation.
    limit = freedom * (1 - 2 / (9 * freedom) + 3.72 * math.sqrt(2 / (9 * freedom))) ** 3
    assert chi_square < limit
