"""What the native backend's plan does with memory, and what it refuses."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.backends import backend, backends
from tests.ops.probes import NO_ROTATION, matrix, rows_of
from tests.paged import flat_inputs

from netgain.kv.geometry import KVDType, KVGroup
from netgain.ops.backend import Backend, StepRunner
from netgain.ops.choices import BackendName, KVFormat, WeightFormat
from netgain.ops.draws import Draws
from netgain.ops.interface import AttentionSpec, StepOps, Value
from netgain.ops.weights import LinearWeight

pytestmark = pytest.mark.skipif(
    BackendName.NATIVE not in backends(), reason="the native library is not there"
)
GROUP = KVGroup("full", (0, 1), 1, 16, 16, KVDType.FP32)


@dataclass(frozen=True)
class Probe:
    """A forward pass over one table and one square matrix."""

    table: LinearWeight
    weight: LinearWeight
    steps: Callable[[StepOps[object], LinearWeight, LinearWeight], object]
    inverse_frequencies: NDArray[np.float32] = field(default_factory=lambda: NO_ROTATION)

    def forward(self, ops: StepOps[Value]) -> Value:
        return self.steps(ops, self.table, self.weight)  # type: ignore[arg-type,return-value]


@pytest.fixture(scope="module")
def native() -> Backend:
    return backend(BackendName.NATIVE, WeightFormat.FP32, KVFormat.FP32)


def numbers(rows: int, columns: int, seed: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float32)


X, W = numbers(40, 64, 0), numbers(64, 64, 1)


def runner(
    native: Backend, steps: Callable[[StepOps[object], LinearWeight, LinearWeight], object]
) -> StepRunner:
    probe = Probe(matrix(native, X, embedding=True), matrix(native, W), steps)
    return native.runner(probe, (GROUP,), 8, 32, 4)


def test_a_residual_that_is_also_multiplied_is_not_written_over_while_it_is_read(
    native: Backend,
) -> None:
    def steps(ops: StepOps[object], table: LinearWeight, weight: LinearWeight) -> object:
        x = ops.embedding(table)
        return ops.logit_rows(ops.linear(x, weight, x))

    tokens = list(range(32))
    found = rows_of(runner(native, steps), tokens, tokens)
    assert np.allclose(found, X[:32] + X[:32] @ W.T, atol=1e-4)


def test_logits_with_a_residual_come_out_whole(native: Backend) -> None:
    def steps(ops: StepOps[object], table: LinearWeight, weight: LinearWeight) -> object:
        x, residual = ops.embedding(table), ops.embedding(table)
        return ops.linear(ops.logit_rows(x), weight, ops.logit_rows(residual))

    found = rows_of(runner(native, steps), [3, 1, 2], [0, 2])
    assert np.allclose(found, X[[3, 2]] + X[[3, 2]] @ W.T, atol=1e-4)


@pytest.mark.parametrize("weights", [WeightFormat.INT8, WeightFormat.INT4])
@pytest.mark.parametrize("columns", [1, 4, 33, 36, 37, 64, 100, 124])
def test_quantised_weights_multiply_any_number_of_columns(
    weights: WeightFormat, columns: int
) -> None:
    made = backend(BackendName.NATIVE, weights, KVFormat.FP32)
    random = np.random.default_rng(columns)
    # Numbers that 8 bits hold with a scale of 1, and weights that 4 bits hold, far from 0.
    x_TI = random.integers(-127, 128, (20, columns)).astype(np.float32)
    x_TI[:, ::32] = 127
    w_OI = (1 + random.integers(0, 16, (24, columns)) / 16).astype(np.float32)
    w_OI[:, ::32], w_OI[:, 1::32] = 1, 31 / 16

    def steps(ops: StepOps[object], table: LinearWeight, weight: LinearWeight) -> object:
        return ops.linear(ops.logit_rows(ops.embedding(table)), weight)

    probe = Probe(matrix(made, x_TI, embedding=True), matrix(made, w_OI), steps)
    found_TO = rows_of(made.runner(probe, (GROUP,), 8, 32, 20), list(range(20)), list(range(20)))
    # A pair is off by 5 of 7,900 at most, bfloat16 by 1 of 256 of either factor.
    most_off = 127 * max(5.01 / 7900, 2 / 256 if made.traits.isa == "amx" else 0)
    of_weights = 127 * columns * w_OI.max() / 254 if weights is WeightFormat.INT8 else 0
    allowed_O = most_off * (w_OI.sum(1) + 4) + of_weights + 1e-3
    assert (np.abs(found_TO - x_TI @ w_OI.T) <= allowed_O).all()


def test_more_tokens_or_rows_than_the_plan_has_memory_for_are_refused(native: Backend) -> None:
    def steps(ops: StepOps[object], table: LinearWeight, weight: LinearWeight) -> object:
        return ops.linear(ops.logit_rows(ops.embedding(table)), weight)

    made = runner(native, steps)
    with pytest.raises(ValueError, match="33 tokens, the plan has 32"):
        rows_of(made, [0] * 33, [0])
    five = flat_inputs([0] * 5, [(0, 5)], [[1]], [0, 1, 2, 3, 4])
    greedy = Draws(
        np.zeros(5, np.float32),
        np.zeros(5, np.int32),
        np.ones(5, np.float32),
        np.zeros(5, np.uint64),
        np.zeros(5, np.int64),
    )
    with pytest.raises(ValueError, match="5 rows, the plan draws 4"):
        made.run(five, greedy)


def test_a_token_outside_the_embedding_is_refused(native: Backend) -> None:
    def steps(ops: StepOps[object], table: LinearWeight, weight: LinearWeight) -> object:
        return ops.linear(ops.logit_rows(ops.embedding(table)), weight)

    for token in (-1, 40):
        with pytest.raises(ValueError, match="outside the rows of the embedding"):
            rows_of(runner(native, steps), [token], [0])


def test_layers_of_a_group_that_see_differently_far_are_refused(native: Backend) -> None:
    def steps(ops: StepOps[object], table: LinearWeight, weight: LinearWeight) -> object:
        qkv = ops.linear(ops.embedding(table), weight)
        ops.attention(qkv, AttentionSpec(0, 0, 2, 1, 16))
        return ops.attention(qkv, AttentionSpec(0, 1, 2, 1, 16, window=8))

    with pytest.raises(ValueError, match="must agree in query heads and window"):
        runner(native, steps)
