"""Drawn tokens follow the stated distribution, and nothing but the row's own seed and place."""

import math
from typing import Final

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.backends import backend, backends
from tests.ops.probes import matrix
from tests.ops.sampling_rig import (
    DRAWS,
    LOGITS,
    How,
    LogitsProbe,
    Row,
    assert_follows,
    draw,
    draws_of,
    exact_distribution,
    sample,
)
from tests.paged import flat_inputs

from netgain.kv.geometry import KVGroup
from netgain.ops.backend import Backend
from netgain.ops.draws import uniform
from netgain.ops.torch_sampling import draw as torch_draw


@pytest.fixture(scope="module", params=backends())
def ops(request: pytest.FixtureRequest) -> Backend:
    return backend(request.param)


@pytest.mark.parametrize(
    "how",
    [
        How(),
        How(temperature=0.5),
        How(temperature=3.0),
        How(top_k=3),
        How(top_p=0.7),
        How(top_p=0.3),
        How(temperature=1.5, top_k=6, top_p=0.8),
        How(top_k=10**6, top_p=0.999),
        How(min_p=0.2),
        How(min_p=0.2, temperature=2.0),
        How(temperature=1.5, top_k=8, top_p=0.95, min_p=0.25),
    ],
    ids=str,
)
@pytest.mark.parametrize("seed", [0, 12345])
def test_draws_follow_the_exact_distribution(ops: Backend, how: How, seed: int) -> None:
    assert_follows(draw(ops, LOGITS, how, DRAWS, seed), exact_distribution(LOGITS, how))


HOWS: Final = (
    How(),
    How(top_k=40),
    How(top_p=0.1),
    How(top_p=0.9),
    How(top_p=0.9999),
    How(temperature=0.7, top_k=50, top_p=0.95),
    How(top_k=2000, top_p=0.999),
    How(min_p=0.05),
    How(temperature=0.7, top_k=50, top_p=0.95, min_p=0.1),
)


@pytest.mark.parametrize("how", HOWS, ids=str)
@pytest.mark.parametrize("spread", [0.1, 3.0])
@pytest.mark.parametrize("rounded", [False, True])
def test_a_draw_inverts_the_kept_tokens_running_probability_in_vocabulary_order(
    ops: Backend, how: How, spread: float, rounded: bool
) -> None:
    """Both where a few tokens are kept and where most of the vocabulary is; with many equals."""
    logits_V = np.random.default_rng(8).standard_normal(5000, np.float32) * np.float32(spread)
    if rounded:
        logits_V = np.round(logits_V, 1)
    exact = np.array(exact_distribution(logits_V.tolist(), how))
    running = exact.cumsum()
    rows = [Row(how, 3, position) for position in range(60)]
    for row, token in zip(rows, sample(ops, logits_V[None], rows), strict=True):
        number = uniform(row.seed, row.position)
        # Within rounding of float32 probabilities the neighbour is as right.
        assert exact[token] > 0
        assert running[token] - exact[token] - 1e-5 <= number <= running[token] + 1e-5


def test_top_p_keeps_the_token_that_reaches_it_and_none_after(ops: Backend) -> None:
    logits_V = np.log(np.array([0.5, 0.25, 0.125, 0.125], np.float32))
    assert set(draw(ops, logits_V, How(top_p=0.49), 300, 1)) == {0}
    assert set(draw(ops, logits_V, How(top_p=0.51), 300, 1)) == {0, 1}
    assert set(draw(ops, logits_V, How(top_p=1e-9), 300, 1)) == {0}


@pytest.mark.parametrize("how", [How(top_k=3), How(top_p=0.5)], ids=str)
def test_of_equal_logits_those_of_lower_id_are_kept(ops: Backend, how: How) -> None:
    assert set(draw(ops, [1.0] * 6, how, 300, 1)) == {0, 1, 2}


@pytest.mark.parametrize("vocabulary", [97, 1000])
def test_greedy_takes_the_largest_logit(ops: Backend, vocabulary: int) -> None:
    logits_NV = np.random.default_rng(3).standard_normal((50, vocabulary), np.float32)
    rows = [Row(How(temperature=0.0), 5, position) for position in range(50)]
    assert sample(ops, logits_NV, rows) == logits_NV.argmax(-1).tolist()


def test_greedy_takes_the_lowest_id_of_equals(ops: Backend) -> None:
    logits_V = np.zeros(3000, np.float32)
    logits_V[[70, 71, 2900]] = 1.0
    assert set(draw(ops, logits_V, How(temperature=0.0), 4, 0)) == {70}


def test_a_rows_token_does_not_depend_on_who_shares_its_batch(ops: Backend) -> None:
    logits_NV = np.random.default_rng(4).standard_normal((12, 60), np.float32)
    hows = [How(), How(top_p=0.8), How(temperature=0.0)]
    rows = [Row(hows[n % 3], seed=n, position=n * n) for n in range(12)]
    together = sample(ops, logits_NV, rows)
    alone = [sample(ops, logits_NV[n : n + 1], [rows[n]])[0] for n in range(12)]
    backwards = sample(ops, np.ascontiguousarray(logits_NV[::-1]), rows[::-1])[::-1]
    assert together == alone == backwards


def test_seed_and_position_each_change_the_draw(ops: Backend) -> None:
    flat_NV = np.zeros((1, 1000), np.float32)
    by_position = sample(ops, flat_NV, [Row(How(), 1, p) for p in range(50)])
    by_seed = sample(ops, flat_NV, [Row(How(), s, 1) for s in range(50)])
    assert len(set(by_position)) > 40
    assert len(set(by_seed)) > 40


def test_the_uniform_number_is_the_same_on_every_machine() -> None:
    assert uniform(0, 0) == 0.011546754286331562
    assert uniform(-1, 7) == uniform(2**64 - 1, 7)
    assert uniform(1, 0) != uniform(0, 1)


@pytest.mark.parametrize("seed", [0, 1, 12345, -1, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("position", [0, 1, 99, 2**40])
def test_the_uniform_number_is_the_published_generators(seed: int, position: int) -> None:
    """Philox-4x64-10 written out, as a backend must that does not call numpy."""
    counter, key = [position + 1, 0, 0, 0], [seed % 2**64, 0]
    for number in range(10):
        if number:
            key[0] = (key[0] + 0x9E3779B97F4A7C15) % 2**64
            key[1] = (key[1] + 0xBB67AE8584CAA73B) % 2**64
        first, second = 0xD2E7470EE14C6C93 * counter[0], 0xCA5A826395121157 * counter[2]
        counter = [
            (second >> 64) ^ counter[1] ^ key[0],
            second % 2**64,
            (first >> 64) ^ counter[3] ^ key[1],
            first % 2**64,
        ]
    assert uniform(seed, position) == (counter[0] >> 11) / 2**53


@pytest.mark.parametrize("seed", [0, 1, -1, 2**63 - 1, -(2**63)])
def test_uniform_numbers_lie_in_the_unit_interval(seed: int) -> None:
    values = [uniform(seed, position) for position in range(500)]
    assert 0 <= min(values) < 0.05
    assert 0.95 < max(values) < 1


def improbable() -> NDArray[np.float32]:
    """Two of a hundred tokens have any probability."""
    logits_V = np.full(100, -math.inf, np.float32)
    logits_V[[17, 54]] = [1.0, 0.5]
    return logits_V


@pytest.mark.parametrize("how", [How(), How(top_p=0.99), How(top_k=40)], ids=str)
def test_tokens_of_probability_zero_are_never_drawn(ops: Backend, how: How) -> None:
    assert set(draw(ops, improbable(), how, 2000, 9)) == {17, 54}


@pytest.mark.parametrize(("number", "token"), [(0.0, 17), (math.nextafter(1.0, 0.0), 54)])
@pytest.mark.parametrize("top_p", [1.0, 0.999])
@pytest.mark.parametrize("top_k", [0, 40])
def test_the_ends_of_the_unit_interval_draw_possible_tokens_on_torch(
    number: float, token: int, top_p: float, top_k: int
) -> None:
    assert torch_draw(torch.from_numpy(improbable()), 1.0, top_k, top_p, number) == token


def test_top_k_beyond_the_vocabulary_is_no_limit(ops: Backend) -> None:
    limited = draw(ops, LOGITS, How(top_k=10**9), 200, 2)
    assert limited == draw(ops, LOGITS, How(), 200, 2)


@pytest.mark.parametrize("temperature", [1.1e-5, 1.0, 100.0])
@pytest.mark.parametrize("top_k", [0, 3])
@pytest.mark.parametrize("top_p", [1.0, 0.9])
def test_extreme_logits_give_the_only_likely_token(
    ops: Backend, temperature: float, top_k: int, top_p: float
) -> None:
    logits = [-math.inf, -1e30, 0.0, 1e30, -math.inf, 1e29]
    assert set(draw(ops, logits, How(temperature, top_k, top_p), 50, 3)) == {3}


def test_no_rows_draw_nothing(ops: Backend) -> None:
    probe = LogitsProbe(matrix(ops, np.zeros((2, 32), np.float32), embedding=True))
    runner = ops.runner(probe, [KVGroup("full", (0,), 1, 16, 16, ops.traits.kv_dtype)], 2, 4, 4)
    assert runner.run(flat_inputs([0], [(0, 1)], [[1]], []), draws_of([])) == []
