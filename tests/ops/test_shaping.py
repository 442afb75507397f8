"""Bias, bans and penalties: what they do to a draw, in which order, and to whom."""

import math
from typing import Final

import numpy as np
import pytest
import torch
from tests.backends import backend, backends
from tests.ops.sampling_rig import (
    DRAWS,
    LOGITS,
    How,
    Row,
    assert_follows,
    draw,
    exact_distribution,
    sample,
    shaped,
    shaping,
)
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from netgain.ops.backend import Backend
from netgain.ops.draws import Shaping

GREEDY: Final = How(temperature=0.0)
SEEN: Final = {0: 3, 1: 1, 5: 2, 9: 1, 3: 0}


@pytest.fixture(scope="module", params=backends())
def ops(request: pytest.FixtureRequest) -> Backend:
    return backend(request.param)


SHAPINGS: Final = {
    "bias": shaping(bias={1: 3.0, 9: -2.5, 4: 100.0, 0: -100.0}),
    "small bias": shaping(bias={2: 0.7, 3: -0.7}),
    "banned": shaping(banned=[0, 9]),
    "repetition": shaping(seen=SEEN, repetition=1.8),
    "repetition wanted": shaping(seen=SEEN, repetition=0.6),
    "presence": shaping(seen=SEEN, presence=1.5),
    "negative presence": shaping(seen=SEEN, presence=-2.0),
    "frequency": shaping(seen=SEEN, frequency=0.8),
    "negative frequency": shaping(seen=SEEN, frequency=-0.9),
    "everything": shaping(
        bias={0: 1.0, 5: 2.0, 7: -1.0},
        banned=[6],
        seen=SEEN,
        repetition=1.3,
        frequency=0.3,
        presence=0.4,
    ),
}


@pytest.mark.parametrize("name", SHAPINGS)
@pytest.mark.parametrize(
    "how", [How(), How(temperature=1.7, top_k=6, top_p=0.9, min_p=0.05)], ids=str
)
def test_shaped_draws_follow_the_exact_distribution(ops: Backend, name: str, how: How) -> None:
    made = SHAPINGS[name]
    exact = exact_distribution(shaped(LOGITS, made), how)
    assert exact != pytest.approx(exact_distribution(LOGITS, how), abs=0.02)
    assert_follows(draw(ops, LOGITS, how, DRAWS, 77, made), exact)


@pytest.mark.parametrize("name", SHAPINGS)
def test_greedy_takes_the_largest_logit_once_shaped(ops: Backend, name: str) -> None:
    logits = shaped(LOGITS, SHAPINGS[name])
    assert set(draw(ops, LOGITS, GREEDY, 3, 1, SHAPINGS[name])) == {logits.index(max(logits))}


def test_bias_comes_before_the_repetition_penalty(ops: Backend) -> None:
    # The other way round token 0 would end at 4 / 2 - 3 = -1, below token 1.
    made = shaping(bias={0: -3.0}, seen={0: 1}, repetition=2.0)
    assert set(draw(ops, [4.0, 0.4], GREEDY, 2, 1, made)) == {0}


def test_the_repetition_penalty_comes_before_the_others(ops: Backend) -> None:
    # The other way round token 0 would end at (1 - 2) * 2 = -2, below token 1.
    made = shaping(seen={0: 1}, repetition=2.0, presence=2.0)
    assert set(draw(ops, [1.0, -1.7], GREEDY, 2, 1, made)) == {0}


def test_penalties_come_before_the_temperature(ops: Backend) -> None:
    """After it a penalty of 2 would cost token 0 all its probability, not a fifth of its logit."""
    made = shaping(seen={0: 1}, presence=2.0)
    drawn = draw(ops, [0.0, 0.0], How(temperature=20.0), DRAWS, 1, made)
    assert_follows(drawn, exact_distribution([-2.0, 0.0], How(temperature=20.0)))
    assert drawn[0] > 0.4 * DRAWS


def test_tokens_of_the_prompt_only_pay_no_presence_and_no_frequency(ops: Backend) -> None:
    made = shaping(seen={0: 0, 1: 1}, presence=2.0, frequency=2.0)
    assert set(draw(ops, [1.0, 1.5, 0.0], GREEDY, 2, 1, made)) == {0}


def test_a_ban_holds_against_any_bias(ops: Backend) -> None:
    made = shaping(bias={1: 100.0}, banned=[1])
    assert set(draw(ops, [0.0, 50.0, 1.0], GREEDY, 2, 1, made)) == {2}
    assert 1 not in draw(ops, [0.0, 50.0, 1.0], How(temperature=100.0), 200, 1, made)


def test_where_everything_is_banned_a_token_comes_all_the_same(ops: Backend) -> None:
    made = shaping(banned=[0, 1, 2])
    for how in (GREEDY, How(), How(top_p=0.5, min_p=0.5)):
        (token,) = set(draw(ops, [0.0, 5.0, 1.0], how, 3, 1, made))
        assert 0 <= token < 3


@pytest.mark.parametrize("repetition", [1e-30, 100.0])
def test_extreme_penalties_give_a_token(ops: Backend, repetition: float) -> None:
    made = shaping(seen={0: 1, 1: 0}, repetition=repetition)
    logits = shaped([1.0, -1.0, 0.5], made)
    assert set(draw(ops, [1.0, -1.0, 0.5], How(), 20, 1, made)) <= {0, 1, 2}
    assert set(draw(ops, [1.0, -1.0, 0.5], GREEDY, 2, 1, made)) == {logits.index(max(logits))}


def test_ids_outside_the_vocabulary_are_passed_over(ops: Backend) -> None:
    made = shaping(
        bias={2: 9.0, 10**6: 5.0, 2**31 - 1: 5.0},
        banned=[3, -1, 40_000],
        seen={1: 2, 10**6: 7},
        presence=1.0,
    )
    inside = shaping(bias={2: 9.0}, banned=[3], seen={1: 2}, presence=1.0)
    assert draw(ops, LOGITS, How(), 50, 4, made) == draw(ops, LOGITS, How(), 50, 4, inside)


def test_a_row_is_shaped_without_a_trace_on_its_neighbours(ops: Backend) -> None:
    logits_NV = np.random.default_rng(6).standard_normal((9, 70), np.float32)
    hows = [How(), How(top_p=0.8, min_p=0.02), GREEDY]
    seen = {token: token % 3 for token in range(0, 70, 2)}
    everything = shaping(
        bias={1: 4.0}, banned=[2], seen=seen, repetition=1.5, frequency=0.5, presence=0.5
    )
    rows = [Row(hows[n % 3], n, 5 * n, everything if n % 2 else None) for n in range(9)]
    together = sample(ops, logits_NV, rows)
    assert together == [sample(ops, logits_NV[n : n + 1], [rows[n]])[0] for n in range(9)]
    plain = [Row(row.how, row.seed, row.position) for row in rows]
    without = sample(ops, logits_NV, plain)
    assert together[::2] == without[::2]
    assert together[1::2] != without[1::2]


def test_the_repetition_penalty_is_transformers(ops: Backend) -> None:
    logits = np.random.default_rng(2).standard_normal(50).astype(np.float32)
    seen = [3, 7, 7, 40, 11]
    processor = RepetitionPenaltyLogitsProcessor(1.7)
    theirs = processor(torch.tensor([seen]), torch.from_numpy(logits[None].copy()))[0]
    made = shaping(seen=dict.fromkeys(seen, 0), repetition=1.7)
    assert shaped(logits.tolist(), made) == pytest.approx(theirs.tolist(), rel=1e-6)
    exact = torch.softmax(theirs.double(), -1).tolist()
    assert_follows(draw(ops, logits, How(), DRAWS, 8, made), exact)


@pytest.mark.parametrize(
    "how",
    [
        How(temperature=0.7, top_k=20, top_p=0.9, min_p=0.1),
        How(temperature=1.5, top_k=30, top_p=0.8, min_p=0.02),
        How(top_p=0.95, min_p=0.3),
        How(temperature=2.5, min_p=0.2),
    ],
    ids=str,
)
def test_the_order_of_the_limits_is_transformers(ops: Backend, how: How) -> None:
    logits = np.random.default_rng(9).standard_normal(60).astype(np.float32) * 2
    warpers = LogitsProcessorList(
        [
            TemperatureLogitsWarper(how.temperature),
            *([TopKLogitsWarper(how.top_k)] if how.top_k else []),
            *([TopPLogitsWarper(how.top_p)] if how.top_p < 1 else []),
            MinPLogitsWarper(how.min_p),
        ]
    )
    scores = warpers(torch.LongTensor([[0]]), torch.from_numpy(logits[None].copy()))[0]
    exact = torch.softmax(scores.double(), -1).tolist()
    assert exact == pytest.approx(exact_distribution(logits.tolist(), how), abs=1e-6)
    assert_follows(draw(ops, logits, how, DRAWS, 21), exact)


def test_both_backends_draw_the_same_tokens() -> None:
    logits_V = np.random.default_rng(12).standard_normal(4000, np.float32) * np.float32(3)
    seen = {token: token % 4 for token in range(0, 4000, 9)}
    made = shaping(
        bias={5: 3.0, 17: -4.0},
        banned=[8, 9],
        seen=seen,
        repetition=1.2,
        frequency=0.1,
        presence=0.2,
    )
    rows = [
        Row(How(0.9, top_k, top_p, min_p), seed, 3, made)
        for top_k in (0, 40)
        for top_p in (1.0, 0.9)
        for min_p in (0.0, 0.05)
        for seed in range(8)
    ]
    drawn = [sample(backend(name), logits_V[None], rows) for name in backends()]
    assert all(tokens == drawn[0] for tokens in drawn)


def test_no_penalty_at_all_changes_no_draw(ops: Backend) -> None:
    made: Shaping = shaping(seen=SEEN, bias={3: 0.0})
    assert draw(ops, LOGITS, How(), 100, 2, made) == draw(ops, LOGITS, How(), 100, 2)
    assert math.isclose(sum(exact_distribution(LOGITS, How())), 1.0)
