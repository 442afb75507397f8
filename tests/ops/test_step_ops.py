"""Every backend's operations against formulas, and what a slice may not learn of its company.

Dimensions: T tokens, H query heads, K key-value heads, D head dim, J = H + 2 K.
"""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.backends import backend, backends
from tests.ops.probes import (
    NO_ROTATION,
    AttentionProbe,
    GatedProbe,
    LinearProbe,
    NormProbe,
    ResidualProbe,
    Sequences,
    matrix,
    rows_of,
    runner_of,
)
from tests.paged import LEFT_BEHIND

from netgain.kv.geometry import KVGroup
from netgain.ops.backend import Backend, StepRunner
from netgain.ops.choices import KVFormat, WeightFormat
from netgain.ops.interface import Activation, AttentionSpec, StepModel
from netgain.ops.stored import StoredType
from netgain.ops.torch_backend import TorchBackend
from netgain.ops.weights import MatrixSpec

HEADS, KV_HEADS, DIM, BLOCK, BLOCKS, LAYERS = 6, 2, 16, 8, 200, 2
SPEC: Final = AttentionSpec(group=0, layer=1, heads=HEADS, kv_heads=KV_HEADS, head_dim=DIM)
FREQUENCIES: Final = (10000.0 ** (-np.arange(DIM // 2) / (DIM // 2))).astype(np.float32)
Slice = tuple[int, int]  # queries, context


@pytest.fixture(scope="module", params=backends())
def ops(request: pytest.FixtureRequest) -> Backend:
    return backend(request.param, WeightFormat.FP32, KVFormat.FP32)


def group(made: Backend) -> KVGroup:
    return KVGroup("full", tuple(range(LAYERS)), KV_HEADS, DIM, BLOCK, made.traits.kv_dtype)


def sequences(slices: Sequence[Slice]) -> Sequences:
    """The same blocks for the same place in the list, scrambled."""
    found, rng = [], random.Random(0)
    free = list(range(1, BLOCKS))
    rng.shuffle(free)
    for _, context in slices:
        needed = -(-context // BLOCK)
        found.append(free[:needed])
        del free[:needed]
    return Sequences(slices, found)


def random_rows(rows: int, columns: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal((rows, columns), np.float32)


def projected(every: Sequences) -> NDArray[np.float32]:
    """Queries, keys and values of all tokens, `[T, J * D]`."""
    return random_rows(every.tokens, (HEADS + 2 * KV_HEADS) * DIM)


def attention(
    made: Backend,
    every: Sequences,
    *,
    frequencies: NDArray[np.float32] = NO_ROTATION,
    spec: AttentionSpec = SPEC,
    fill: int = 0,
) -> StepRunner:
    table = matrix(made, projected(every), embedding=True)
    return runner_of(made, AttentionProbe(table, spec, frequencies), group(made), BLOCKS, fill)


def runner(made: Backend, probe: StepModel) -> StepRunner:
    return made.runner(probe, [group(made)], BLOCKS, 64, 64)


def rotated(x_THD: NDArray[np.float64], frequencies: NDArray[np.float32]) -> NDArray[np.float64]:
    """Each pair `(d, d + D/2)` turned by position times frequency."""
    angles = np.arange(len(x_THD))[:, None, None] * frequencies.astype(np.float64)
    low, high = np.split(x_THD, 2, axis=-1)
    return np.concatenate(
        (
            low * np.cos(angles) - high * np.sin(angles),
            high * np.cos(angles) + low * np.sin(angles),
        ),
        axis=-1,
    )


def by_the_formula(
    every: Sequences,
    index: int,
    frequencies: NDArray[np.float32] = NO_ROTATION,
    window: int | None = None,
) -> NDArray[np.float64]:
    """softmax(q k / sqrt(D)) v, one query and head at a time, in float64."""
    rows = projected(every)[every.ids(index)].astype(np.float64)
    qkv = rows.reshape(len(rows), -1, DIM)
    queries = rotated(qkv[:, :HEADS], frequencies)
    keys = rotated(qkv[:, HEADS : HEADS + KV_HEADS], frequencies)
    values = qkv[:, HEADS + KV_HEADS :]
    count, context = every.slices[index]
    found = np.empty((count, HEADS, DIM))
    for place, position in enumerate(range(context - count, context)):
        first = 0 if window is None else max(0, position + 1 - window)
        for head in range(HEADS):
            kv_head = head // (HEADS // KV_HEADS)
            scores = keys[first : position + 1, kv_head] @ queries[position, head] / np.sqrt(DIM)
            weights = np.exp(scores - scores.max())
            seen = values[first : position + 1, kv_head]
            found[place, head] = weights @ seen / weights.sum()
    return found.reshape(count, -1)


LAYOUTS: Final[list[list[Slice]]] = [
    [(1, 1)],
    [(1, 8), (1, 9), (1, 7)],
    [(1, 128), (1, 129), (1, 300)],
    [(5, 5)],
    [(5, 21), (8, 8)],
    [(1, 50), (7, 40), (1, 200), (16, 16), (2, 130)],
]


@pytest.mark.parametrize("slices", LAYOUTS, ids=str)
@pytest.mark.parametrize("frequencies", [NO_ROTATION, FREQUENCIES], ids=["unrotated", "rotated"])
def test_attention_is_the_formula(
    ops: Backend, slices: list[Slice], frequencies: NDArray[np.float32]
) -> None:
    every = sequences(slices)
    found = every.attend(attention(ops, every, frequencies=frequencies))
    for index, rows in enumerate(found):
        assert np.allclose(rows, by_the_formula(every, index, frequencies), atol=1e-5)


@pytest.mark.parametrize("slices", LAYOUTS, ids=str)
@pytest.mark.parametrize("window", [1, 7, 64, 1000])
def test_a_window_hides_what_lies_before_it(ops: Backend, slices: list[Slice], window: int) -> None:
    every = sequences(slices)
    found = every.attend(attention(ops, every, spec=replace(SPEC, window=window)))
    for index, rows in enumerate(found):
        assert np.allclose(rows, by_the_formula(every, index, window=window), atol=1e-5)


def test_attention_of_a_slice_is_the_same_alone_and_in_any_company(ops: Backend) -> None:
    # To the bit, but for torch, whose order of additions follows addresses on some processors.
    tolerance = 1e-6 if isinstance(ops, TorchBackend) else 0.0
    every = sequences([(1, 50), (7, 40), (1, 200), (1, 60), (16, 16), (2, 130), (1, 51), (1, 129)])
    together = every.attend(attention(ops, every, frequencies=FREQUENCIES))
    for index, rows in enumerate(together):
        (alone,) = every.attend(attention(ops, every, frequencies=FREQUENCIES), [index])
        np.testing.assert_allclose(alone, rows, rtol=0, atol=tolerance)


def test_attention_reads_nothing_behind_the_context(ops: Backend) -> None:
    every = sequences([(1, 13), (3, 21)])
    clean = every.attend(attention(ops, every))
    dirty = every.attend(attention(ops, every, fill=LEFT_BEHIND))
    for left, right in zip(clean, dirty, strict=True):
        assert np.array_equal(left, right)


def test_only_blocks_of_the_tables_are_written(ops: Backend) -> None:
    every = sequences([(3, 9), (1, 4)])
    made = attention(ops, every, fill=LEFT_BEHIND)
    every.attend(made)
    (record,) = made.records
    written = {block for table in every.tables for block in table}
    touched = set(np.flatnonzero((record != LEFT_BEHIND).any(axis=1)).tolist())
    assert touched == written


def test_norm_is_its_formula(ops: Backend) -> None:
    x, gain = random_rows(5, 32), random_rows(1, 32, seed=1)[0]
    found = rows_of(
        runner(ops, NormProbe(matrix(ops, x, embedding=True), gain, 0.1)), [4, 0, 2], [1, 2]
    )
    rows = x[[0, 2]].astype(np.float64)
    expected = rows / np.sqrt(np.square(rows).mean(axis=1, keepdims=True) + 0.1) * gain
    assert np.allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("biased", [False, True])
def test_linear_is_its_formula(ops: Backend, biased: bool) -> None:
    x, weight = random_rows(5, 32), random_rows(64, 32, seed=1)
    bias = random_rows(1, 64, seed=2)[0] if biased else None
    probe = LinearProbe(matrix(ops, x, embedding=True), matrix(ops, weight, bias))
    found = rows_of(runner(ops, probe), [4, 0, 2], [0, 1, 2])
    expected = x[[4, 0, 2]] @ weight.T + (0 if bias is None else bias)
    assert np.allclose(found, expected, atol=1e-5)
    assert probe.weight.shape == (64, 32)
    assert probe.weight.stored_bytes >= 64 * 32 // 2


@pytest.mark.parametrize("features", [32, 40, 64])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("activation", list(Activation))
def test_a_gated_layer_is_its_formula(
    ops: Backend, activation: Activation, biased: bool, features: int
) -> None:
    x, weight = random_rows(5, 32), random_rows(2 * features, 32, seed=1)
    bias = random_rows(1, 2 * features, seed=2)[0] if biased else None
    table, gate_up = matrix(ops, x, embedding=True), matrix(ops, weight, bias, gated=True)
    found = rows_of(runner(ops, GatedProbe(table, gate_up, activation)), [1, 3], [0, 1])
    both = x[[1, 3]].astype(np.float64) @ weight.T + (0 if bias is None else bias)
    gate, up = np.split(both, 2, axis=1)
    if activation is Activation.SILU:
        expected = gate / (1 + np.exp(-gate)) * up
    else:
        inner = np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3)
        expected = 0.5 * gate * (1 + np.tanh(inner)) * up
    assert np.allclose(found, expected, atol=2e-5)


def test_a_residual_is_added(ops: Backend) -> None:
    x, weight = random_rows(5, 32), random_rows(32, 32, seed=1)
    probe = ResidualProbe(matrix(ops, x, embedding=True), matrix(ops, weight))
    found = rows_of(runner(ops, probe), [1, 3], [0, 1])
    rows = x[[1, 3]].astype(np.float64)
    assert np.allclose(found, rows + 2 * (rows @ weight.T), atol=2e-5)


def test_a_matrix_takes_the_memory_that_was_planned(ops: Backend) -> None:
    spec = MatrixSpec("probe", (64, 32), (StoredType.F32,), has_bias=True)
    weight = matrix(ops, random_rows(64, 32), random_rows(1, 64)[0])
    assert ops.resident_bytes(spec) == pytest.approx(weight.stored_bytes, rel=0.05)
