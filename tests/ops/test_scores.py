"""Log-probabilities, ranks, alternatives and hidden states of a step's rows.

Dimensions: N rows, V vocabulary, E hidden.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.backends import backend, backends
from tests.ops.probes import NO_ROTATION, matrix
from tests.ops.sampling_rig import How, Row, draws_of, runner_over, shaping
from tests.paged import flat_inputs

from netgain.kv.geometry import KVGroup
from netgain.ops.backend import Backend, StepRunner
from netgain.ops.choices import Numerics
from netgain.ops.interface import StepOps, Value
from netgain.ops.scores import Scores, StepYield, Wanted
from netgain.ops.weights import LinearWeight

VOCAB: Final = 96
HIDDEN: Final = 64
EPS: Final = 1e-5


@pytest.fixture(scope="module", params=backends())
def ops(request: pytest.FixtureRequest) -> Backend:
    return backend(request.param)


def wanted(tops: Sequence[int], targets: Sequence[int] = ()) -> Wanted:
    return Wanted(np.array(tops, np.int32), np.array(targets, np.int32))


def run(runner: StepRunner, ids: Sequence[int], rows: Sequence[Row], asked: Wanted) -> StepYield:
    """Every token's row is asked for: the first are drawn from."""
    count = len(ids)
    tables = [list(range(1, -(-count // 16) + 1))]
    inputs = flat_inputs(ids, [(0, count)], tables, range(count))
    return runner.run_scored(inputs, draws_of(rows), asked)


def log_softmax(logits_NV: NDArray[np.float32]) -> NDArray[np.float64]:
    shifted = logits_NV.astype(np.float64)
    shifted -= shifted.max(-1, keepdims=True)
    logprobs: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return logprobs


def ranking(logits_V: NDArray[np.float32]) -> list[int]:
    order: list[int] = np.lexsort((np.arange(len(logits_V)), -logits_V)).tolist()
    return order


def assert_scored(
    scores: Scores, row: int, logits_V: NDArray[np.float32], token: int, tops: int
) -> None:
    exact, order = log_softmax(logits_V[None])[0], ranking(logits_V)
    assert scores.logprobs_S[row] == pytest.approx(exact[token], abs=5e-5)
    assert scores.ranks_S[row] == order.index(token) + 1
    ids = scores.top_ids_SK[row, :tops].tolist()
    assert ids == [*order[:tops], *[-1] * (tops - len(order))]
    found = scores.top_logprobs_SK[row, : len(order[:tops])].tolist()
    assert found == pytest.approx(exact[order[:tops]].tolist(), abs=5e-5)


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize("tops", [0, 1, 20])
def test_drawn_and_given_tokens_are_scored(ops: Backend, rounded: bool, tops: int) -> None:
    logits_NV = np.random.default_rng(5).standard_normal((8, 300), np.float32) * np.float32(2)
    if rounded:
        logits_NV = np.round(logits_NV, 1)  # ties
    rows = [Row(How(), seed, 3) for seed in range(3)]
    targets = [0, 299, 7, 150, 8]
    made = run(runner_over(ops, logits_NV, 8), range(8), rows, wanted([tops] * 8, targets))
    for row, token in enumerate([*made.tokens, *targets]):
        assert_scored(made.scores, row, logits_NV[row], token, tops)


def test_what_shapes_a_draw_does_not_touch_its_score(ops: Backend) -> None:
    logits_NV = np.random.default_rng(5).standard_normal((2, 80), np.float32)
    made = shaping(
        bias={3: 50.0},
        banned=[5],
        seen=dict.fromkeys(range(20), 1),
        repetition=1.5,
        presence=1.0,
        frequency=1.0,
    )
    rows = [Row(How(temperature=0.2, top_k=5, min_p=0.1), 1, 3, made), Row(How(0.0), 2, 3, made)]
    found = run(runner_over(ops, logits_NV, 2), range(2), rows, wanted([20, 20]))
    assert found.tokens == [3, 3]
    for row in range(2):
        assert_scored(found.scores, row, logits_NV[row], 3, 20)


def test_tokens_are_those_of_a_step_that_scores_nothing(ops: Backend) -> None:
    logits_NV = np.random.default_rng(5).standard_normal((6, 500), np.float32)
    rows = [Row(How(top_p=0.9), seed, 8) for seed in range(6)]
    runner = runner_over(ops, logits_NV, 6)
    inputs = flat_inputs(range(6), [(0, 6)], [[1]], range(6))
    plain = runner.run(inputs, draws_of(rows))
    assert run(runner, range(6), rows, wanted([-1, 3, -1, 0, 20, -1])).tokens == plain
    assert runner.run(inputs, draws_of(rows)) == plain


def test_the_probabilities_of_a_whole_vocabulary_add_up_to_one(ops: Backend) -> None:
    logits_NV = np.random.default_rng(5).standard_normal((1, 20), np.float32)
    found = run(runner_over(ops, logits_NV, 1), [0], [Row(How(), 1, 1)], wanted([20]))
    assert np.exp(found.scores.top_logprobs_SK[0]).sum() == pytest.approx(1.0, abs=1e-6)
    assert sorted(found.scores.top_ids_SK[0].tolist()) == list(range(20))


def test_more_alternatives_than_the_vocabulary_has_are_left_out(ops: Backend) -> None:
    logits_NV = np.random.default_rng(5).standard_normal((1, 7), np.float32)
    found = run(runner_over(ops, logits_NV, 1), [0], [Row(How(), 1, 1)], wanted([20]))
    assert_scored(found.scores, 0, logits_NV[0], found.tokens[0], 20)


@dataclass(frozen=True)
class HeadProbe:
    """A norm and a head over rows of a table, as a model ends."""

    table: LinearWeight
    gain: NDArray[np.float32]
    weight: LinearWeight
    inverse_frequencies: NDArray[np.float32] = field(default_factory=lambda: NO_ROTATION)

    def forward(self, ops: StepOps[Value]) -> Value:
        x = ops.logit_rows(ops.embedding(self.table))
        return ops.head(ops.rms_norm(x, self.gain, EPS), self.weight)


@dataclass(frozen=True)
class HeadRig:
    table: NDArray[np.float32]
    gain: NDArray[np.float32]
    weight: NDArray[np.float32]

    def runner(self, ops: Backend, max_rows: int) -> StepRunner:
        probe = HeadProbe(
            matrix(ops, self.table, embedding=True), self.gain, matrix(ops, self.weight)
        )
        group = KVGroup("full", (0,), 1, 16, 16, ops.traits.kv_dtype)
        return ops.runner(probe, [group], 10, 128, max_rows)

    def hidden(self, ids: Sequence[int]) -> NDArray[np.float64]:
        x_NE = self.table[list(ids)].astype(np.float64)
        normed: NDArray[np.float64] = x_NE / np.sqrt((x_NE**2).mean(-1, keepdims=True) + EPS)
        return normed * self.gain


@pytest.fixture(scope="module")
def rig() -> HeadRig:
    rng = np.random.default_rng(4)
    return HeadRig(
        rng.standard_normal((128, HIDDEN), np.float32),
        rng.standard_normal(HIDDEN, np.float32),
        rng.standard_normal((VOCAB, HIDDEN), np.float32) * np.float32(0.3),
    )


@pytest.mark.parametrize("max_rows", [1, 16, 17, 40, 128])
@pytest.mark.parametrize("hidden", [0, 9])
def test_more_rows_than_fit_at_a_time_are_scored_group_by_group(
    ops: Backend, rig: HeadRig, max_rows: int, hidden: int
) -> None:
    drawn = min(max_rows, 13)
    ids = [(5 * n) % 128 for n in range(90)]
    scored = 90 - hidden
    targets = [(7 * n) % VOCAB for n in range(scored - drawn)]
    rows = [Row(How(), seed, 1) for seed in range(drawn)]
    tops = [4 if n % 3 else -1 for n in range(scored)]
    made = run(rig.runner(ops, max_rows), ids, rows, wanted(tops, targets))
    exact_NE = rig.hidden(ids)
    logits_NV = exact_NE.astype(np.float32) @ rig.weight.T
    for row, token in enumerate([*made.tokens, *targets]):
        if tops[row] >= 0:
            exact = log_softmax(logits_NV[row][None])[0]
            assert made.scores.logprobs_S[row] == pytest.approx(exact[token], abs=1e-4)
            assert made.scores.top_ids_SK[row].tolist() == ranking(logits_NV[row])[:4]
    assert len(made.hidden_HE) == hidden
    if hidden:
        np.testing.assert_allclose(made.hidden_HE, exact_NE[scored:], atol=1e-5)


def test_with_invariant_numerics_groups_change_no_bit(ops: Backend, rig: HeadRig) -> None:
    if ops.traits.numerics is not Numerics.INVARIANT:
        pytest.skip("this backend does not promise it")
    ids, targets = [(5 * n) % 128 for n in range(100)], [(7 * n) % VOCAB for n in range(100)]
    found = [
        run(rig.runner(ops, max_rows), ids, [], wanted([5] * 100, targets)).scores
        for max_rows in (16, 48, 128)
    ]
    for one, other in itertools.pairwise(found):
        assert (one.logprobs_S == other.logprobs_S).all()
        assert (one.top_ids_SK == other.top_ids_SK).all()
        assert (one.top_logprobs_SK == other.top_logprobs_SK).all()


def test_a_step_may_want_hidden_states_only(ops: Backend, rig: HeadRig) -> None:
    runner = rig.runner(ops, 4)
    made = run(runner, range(60), [], wanted([]))
    assert (made.tokens, len(made.scores.logprobs_S)) == ([], 0)
    np.testing.assert_allclose(made.hidden_HE, rig.hidden(range(60)), atol=1e-5)
    inputs = flat_inputs([3], [(0, 1)], [[1]], [0])
    assert len(runner.run(inputs, draws_of([Row(How(), 1, 1)]))) == 1


def test_the_caller_gets_logits_of_any_number_of_rows(ops: Backend, rig: HeadRig) -> None:
    inputs = flat_inputs(range(100), [(0, 100)], [list(range(1, 8))], range(100))
    few, many = (rig.runner(ops, rows).logits(inputs) for rows in (4, 128))
    np.testing.assert_allclose(few, many, atol=1e-4)
