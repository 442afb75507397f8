"""Drawn tokens follow the stated distribution, and nothing but the row's own seed and place."""

import math
from collections import Counter

import pytest
import torch
from netgain.engine.sampler import SamplingRow, sample, uniform

from netgain.engine import sampler
from netgain.engine.sampling_params import SamplingParams

DRAWS = 6000
LOGITS_V = torch.tensor([2.0, -1.0, 0.5, 1.9, 0.0, -3.0, 1.0, 0.4, -0.2, 2.2])


def exact_distribution(logits: list[float], params: SamplingParams) -> list[float]:
    """Temperature, then top_k, then top_p, one plain loop each."""
    order = sorted(range(len(logits)), key=lambda token: -logits[token])
    if params.top_k > 0:
        order = order[: params.top_k]
    weights = {token: math.exp(logits[token] / params.temperature) for token in order}
    total = sum(weights.values())
    kept: dict[int, float] = {}
    reached = 0.0
    for token in order:
        if reached >= params.top_p:
            break
        kept[token] = weights[token] / total
        reached += kept[token]
    return [kept.get(token, 0.0) / sum(kept.values()) for token in range(len(logits))]


def draw(logits_V: torch.Tensor, params: SamplingParams, count: int, seed: int) -> Counter[int]:
    rows = [SamplingRow(params, seed, position) for position in range(count)]
    return Counter(sample(logits_V.expand(count, -1), rows))


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(),
        SamplingParams(temperature=0.5),
        SamplingParams(temperature=3.0),
        SamplingParams(top_k=3),
        SamplingParams(top_p=0.7),
        SamplingParams(top_p=0.3),
        SamplingParams(temperature=1.5, top_k=6, top_p=0.8),
        SamplingParams(top_k=10**6, top_p=0.999),
    ],
    ids=str,
)
@pytest.mark.parametrize("seed", [0, 12345])
def test_draws_follow_the_exact_distribution(params: SamplingParams, seed: int) -> None:
    exact = exact_distribution(LOGITS_V.tolist(), params)
    drawn = draw(LOGITS_V, params, DRAWS, seed)
    assert {token for token in drawn if not exact[token]} == set()
    possible = [token for token in range(len(exact)) if exact[token]]
    chi_square = sum(
        (drawn[token] - DRAWS * exact[token]) ** 2 / (DRAWS * exact[token]) for token in possible
    )
    freedom = len(possible) - 1
    # Wilson and Hilferty's approximation of the 99.99 % point.
    limit = freedom * (1 - 2 / (9 * freedom) + 3.72 * math.sqrt(2 / (9 * freedom))) ** 3
    assert chi_square < limit


def test_top_p_keeps_the_token_that_reaches_it_and_none_after() -> None:
    logits_V = torch.log(torch.tensor([0.5, 0.25, 0.125, 0.125]))
    assert set(draw(logits_V, SamplingParams(top_p=0.5), 300, 1)) == {0}
    assert set(draw(logits_V, SamplingParams(top_p=0.51), 300, 1)) == {0, 1}
    assert set(draw(logits_V, SamplingParams(top_p=1e-9), 300, 1)) == {0}


@pytest.mark.parametrize("top_p", [0.1, 0.5, 0.9, 0.99, 0.9999])
@pytest.mark.parametrize("spread", [0.1, 3.0])
def test_top_p_over_a_large_vocabulary_is_inverse_sampling_of_the_sorted_set(
    top_p: float, spread: float
) -> None:
    """Both where a few tokens reach it and where most of the vocabulary is needed."""
    logits_V = torch.randn(5000, generator=torch.Generator().manual_seed(8)) * spread
    order = sorted(range(5000), key=lambda token: -float(logits_V[token]))
    exact = torch.softmax(logits_V.double(), -1)[order]
    kept = int((exact.cumsum(0) - exact < top_p).sum())
    shares = exact[:kept].cumsum(0) / exact[:kept].sum()
    for position in range(50):
        (token,) = sample(
            logits_V.unsqueeze(0), [SamplingRow(SamplingParams(top_p=top_p), 3, position)]
        )
        assert token == order[int((shares <= uniform(3, position)).sum())]


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=0.0),
        SamplingParams(temperature=1e-6),
        SamplingParams(top_k=1),
        SamplingParams(temperature=1e-4),
    ],
    ids=str,
)
def test_greedy_takes_the_largest_logit(params: SamplingParams) -> None:
    logits_NV = torch.randn(50, 97, generator=torch.Generator().manual_seed(3))
    rows = [SamplingRow(params, 5, position) for position in range(50)]
    assert sample(logits_NV, rows) == logits_NV.argmax(-1).tolist()


def test_a_rows_token_does_not_depend_on_who_shares_its_batch() -> None:
    generator = torch.Generator().manual_seed(4)
    logits_NV = torch.randn(12, 60, generator=generator)
    settings = [SamplingParams(), SamplingParams(top_p=0.8), SamplingParams(temperature=0.0)]
    rows = [SamplingRow(settings[n % 3], seed=n, position=n * n) for n in range(12)]
    together = sample(logits_NV, rows)
    alone = [sample(logits_NV[n : n + 1], [rows[n]])[0] for n in range(12)]
    backwards = sample(logits_NV.flip(0), rows[::-1])[::-1]
    assert together == alone == backwards


def test_seed_and_position_each_change_the_draw() -> None:
    flat_V = torch.zeros(1000)
    params = SamplingParams()
    by_position = sample(flat_V.expand(50, -1), [SamplingRow(params, 1, p) for p in range(50)])
    by_seed = sample(flat_V.expand(50, -1), [SamplingRow(params, s, 1) for s in range(50)])
    assert len(set(by_position)) > 40
    assert len(set(by_seed)) > 40


def test_the_uniform_number_is_the_same_on_every_machine() -> None:
    assert uniform(0, 0) == 0.011546754286331562
    assert uniform(-1, 7) == uniform(2**64 - 1, 7)
    assert uniform(1, 0) != uniform(0, 1)


@pytest.mark.parametrize("seed", [0, 1, -1, 2**63 - 1, -(2**63)])
def test_uniform_numbers_lie_in_the_unit_interval(seed: int) -> None:
    values = [uniform(seed, position) for position in range(500)]
    assert 0 <= min(values) < 0.05
    assert 0.95 < max(values) < 1


@pytest.mark.parametrize("params", [SamplingParams(), SamplingParams(top_p=0.99)], ids=str)
def test_tokens_of_probability_zero_are_never_drawn(params: SamplingParams) -> None:
    logits_V = torch.full((100,), -math.inf)
    logits_V[[17, 54]] = torch.tensor([1.0, 0.5])
    drawn = draw(logits_V, params, 2000, 9)
    assert set(drawn) == {17, 54}


@pytest.mark.parametrize(("number", "token"), [(0.0, 17), (math.nextafter(1.0, 0.0), 54)])
@pytest.mark.parametrize("top_p", [1.0, 0.999])
def test_the_ends_of_the_unit_interval_draw_possible_tokens(
    monkeypatch: pytest.MonkeyPatch, number: float, token: int, top_p: float
) -> None:
    monkeypatch.setattr(sampler, "uniform", lambda *_: number)
    logits_V = torch.full((100,), -math.inf)
    logits_V[[17, 54]] = torch.tensor([1.0, 0.5])
    assert set(draw(logits_V, SamplingParams(top_p=top_p), 1, 9)) == {token}


def test_top_k_beyond_the_possible_tokens_draws_only_possible_ones() -> None:
    logits_V = torch.full((100,), -math.inf)
    logits_V[[17, 54]] = 1.0
    assert set(draw(logits_V, SamplingParams(top_k=40), 500, 9)) == {17, 54}


def test_top_k_beyond_the_vocabulary_is_no_limit() -> None:
    rows = 200
    limited = draw(LOGITS_V, SamplingParams(top_k=10**9), rows, 2)
    assert limited == draw(LOGITS_V, SamplingParams(), rows, 2)


@pytest.mark.parametrize("temperature", [1.1e-5, 1.0, 100.0])
@pytest.mark.parametrize("top_k", [0, 3])
@pytest.mark.parametrize("top_p", [1.0, 0.9])
def test_extreme_logits_give_the_only_likely_token(
    temperature: float, top_k: int, top_p: float
) -> None:
    logits_V = torch.tensor([-math.inf, -1e30, 0.0, 1e30, -math.inf, 1e29])
    params = SamplingParams(temperature=temperature, top_k=top_k, top_p=top_p)
    assert set(draw(logits_V, params, 50, 3)) == {3}


def test_no_rows_draw_nothing() -> None:
    assert sample(torch.empty(0, 10), []) == []
