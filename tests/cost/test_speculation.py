"""Speculation's arithmetic: SPEC 8's values, Leviathan's tables, the cases in which it loses."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netgain.cost.known_models import known_shape
from netgain.cost.operations import Stored
from netgain.cost.precision import kv_format, weight_format
from netgain.cost.roofline import RooflineModel
from netgain.cost.speculation import (
    IterationTimes,
    acceptance_for,
    acceptance_of,
    acceptance_per_token,
    batch_speed_up,
    best_depth,
    break_even_acceptance,
    break_even_batch,
    expected_accepted_tokens,
    gain_exists,
    gaining_batches,
    rejected_tokens,
    residual,
    speed_up,
    tokens_per_iteration,
    tokens_per_iteration_measured,
)
from netgain.cost.step_costs import StepCosts
from netgain.cost.step_work import decode, verify
from netgain.errors import ConfigurationError
from netgain.hardware.catalogue import shipped_catalogue

RATES = st.floats(0.0, 1.0)
DEPTHS = st.integers(0, 16)


def on_h100(model: str) -> RooflineModel:
    shape = known_shape(model)
    assert shape is not None
    stored = Stored(weight_format("bf16"), kv_format("bf16"))
    return RooflineModel(shape, shipped_catalogue().device("H100-SXM"), stored)


H100_8B = on_h100("Llama-3.1-8B")


def times_of(
    costs: StepCosts, depth: int, batch: int, draft_ratio: float, context: int = 256
) -> IterationTimes:
    plain = costs.seconds(decode(batch, context))
    scored = costs.seconds(verify(batch, context, depth))
    return IterationTimes(plain, draft_ratio * plain, scored)


def test_a_draft_of_eight_tenths_is_kept_as_often_as_the_target_says() -> None:
    target, draft = (0.5, 0.5), (0.8, 0.2)
    kept = acceptance_per_token(target, draft)
    assert kept[0] == pytest.approx(0.625)
    rejected = sum(q * (1 - rate) for q, rate in zip(draft, kept, strict=True))
    after = residual(target, draft)
    drawn = [q * rate + rejected * r for q, rate, r in zip(draft, kept, after, strict=True)]
    assert drawn == pytest.approx([0.5, 0.5])
    assert draft[1] * kept[1] == pytest.approx(0.2)
    assert rejected * after[1] == pytest.approx(0.3)


@given(acceptance=st.floats(0, 1), depth=st.integers(0, 64), more=st.floats(0, 1))
def test_an_iteration_gives_one_token_at_least_and_all_drafts_and_the_bonus_at_most(
    acceptance: float, depth: int, more: float
) -> None:
    tokens = tokens_per_iteration(acceptance, depth)
    assert 1.0 <= tokens <= depth + 1 + 1e-9
    assert tokens_per_iteration(acceptance, depth + 1) >= tokens
    assert tokens_per_iteration(min(1.0, acceptance + more), depth) >= tokens - 1e-12


@given(st.lists(st.tuples(st.floats(0.01, 1), st.floats(0.01, 1)), min_size=2, max_size=6))
def test_accepting_and_redrawing_gives_the_targets_distribution(
    weights: list[tuple[float, float]],
) -> None:
    target = [p / sum(p for p, _ in weights) for p, _ in weights]
    draft = [q / sum(q for _, q in weights) for _, q in weights]
    kept = acceptance_per_token(target, draft)
    rejected = 1 - sum(q * rate for q, rate in zip(draft, kept, strict=True))
    after = residual(target, draft)
    drawn = [q * rate + rejected * r for q, rate, r in zip(draft, kept, after, strict=True)]
    assert drawn == pytest.approx(target, abs=1e-9)
    assert acceptance_of(target, draft) == pytest.approx(1 - rejected)


@pytest.mark.parametrize(("acceptance", "accepted"), [(0.8, 2.3616), (0.5, 0.9375)])
def test_four_drafts_are_kept_this_often(acceptance: float, accepted: float) -> None:
    assert expected_accepted_tokens(acceptance, 4) == pytest.approx(accepted)
    assert rejected_tokens(acceptance, 4) == pytest.approx(4 - accepted)


@given(st.floats(0.0, 0.999), DEPTHS)
def test_tokens_per_iteration_is_the_closed_form(acceptance: float, depth: int) -> None:
    closed = (1 - acceptance ** (depth + 1)) / (1 - acceptance)
    assert tokens_per_iteration(acceptance, depth) == pytest.approx(closed)


@given(DEPTHS)
def test_perfect_drafts_give_all_of_them_and_the_bonus(depth: int) -> None:
    assert tokens_per_iteration(1.0, depth) == depth + 1


@given(RATES)
def test_depth_zero_is_a_plain_step(acceptance: float) -> None:
    assert tokens_per_iteration(acceptance, 0) == 1
    assert speed_up(acceptance, 0, 0.3) == 1
    assert batch_speed_up(1.0, 0, IterationTimes(0.01, 0.005, 0.02)) == 1


@pytest.mark.parametrize(
    ("acceptance", "depth", "speed"),
    [(0.6, 2, 1.96), (0.7, 3, 2.53), (0.8, 2, 2.44), (0.8, 5, 3.69), (0.9, 2, 2.71),
     (0.9, 10, 6.86)],
)  # fmt: skip
def test_leviathans_table_is_reproduced(acceptance: float, depth: int, speed: float) -> None:
    assert speed_up(acceptance, depth, 0.0) == pytest.approx(speed, abs=0.006)


@pytest.mark.parametrize(
    ("acceptance", "depth", "draft_ratio", "predicted"),
    [(0.75, 7, 0.02, 3.2), (0.8, 7, 0.04, 3.3), (0.82, 7, 0.11, 2.5)],
)
def test_leviathans_predictions_for_t5_are_reproduced(
    acceptance: float, depth: int, draft_ratio: float, predicted: float
) -> None:
    assert speed_up(acceptance, depth, draft_ratio) == pytest.approx(predicted, rel=0.03)


@given(RATES, st.floats(0.0, 1.0))
def test_a_gain_exists_exactly_where_acceptance_exceeds_the_draft_ratio(
    acceptance: float, ratio: float
) -> None:
    best = max(speed_up(acceptance, depth, ratio) for depth in range(1, 40))
    if gain_exists(acceptance, ratio):
        assert best > 1 or acceptance - ratio < 1e-9
    else:
        assert best <= 1 + 1e-12


def test_measured_positions_multiply_and_add() -> None:
    assert tokens_per_iteration_measured([0.8, 0.5]) == pytest.approx(1 + 0.8 + 0.4)
    assert tokens_per_iteration_measured([]) == 1


@given(st.floats(0.01, 1.0), st.integers(1, 8))
def test_equal_positions_are_the_independent_form(acceptance: float, depth: int) -> None:
    assert tokens_per_iteration_measured([acceptance] * depth) == pytest.approx(
        tokens_per_iteration(acceptance, depth)
    )


@given(st.floats(0.02, 0.99), st.integers(1, 10))
def test_the_acceptance_of_a_length_gives_that_length(acceptance: float, depth: int) -> None:
    tokens = tokens_per_iteration(acceptance, depth)
    assert acceptance_for(tokens, depth) == pytest.approx(acceptance, abs=1e-6)


def test_break_even_acceptance_pays_exactly_its_iteration() -> None:
    rate = break_even_acceptance(4, 1.6)
    assert rate is not None
    assert tokens_per_iteration(rate, 4) == pytest.approx(1.6)
    assert break_even_acceptance(4, 0.9) == 0
    assert break_even_acceptance(4, 5.5) is None


def test_at_batch_one_spare_compute_verifies_for_nothing() -> None:
    times = times_of(H100_8B, 4, 1, 0.05)
    plain = batch_speed_up(tokens_per_iteration(0.7, 4), 4, times)
    assert plain == pytest.approx(speed_up(0.7, 4, 0.05), rel=0.02)


def test_speculation_turns_into_a_loss_when_verification_fills_the_compute() -> None:
    """R65, R66: 1.4 to 2.5 times slower at saturation."""
    tokens = tokens_per_iteration(0.7, 4)
    turn = break_even_batch(
        lambda batch: batch_speed_up(tokens, 4, times_of(H100_8B, 4, batch, 0.05))
    )
    ridge = 989 / 3.35
    assert turn is not None
    assert 32 <= turn <= ridge
    saturated = times_of(H100_8B, 4, 512, 0.05)
    assert batch_speed_up(tokens_per_iteration(0.7, 4), 4, saturated) < 0.9


def test_the_turn_is_the_last_batch_that_gains_and_the_next_loses() -> None:
    assert break_even_batch(lambda batch: 2.0 if 10 <= batch < 777 else 0.5) == 777
    assert gaining_batches(lambda batch: 2.0 if 10 <= batch < 777 else 0.5) == (
        16, 32, 64, 128, 256, 512,
    )  # fmt: skip
    assert break_even_batch(lambda _: 0.9) == 1
    assert break_even_batch(lambda _: 1.1) is None


def test_a_mixture_of_experts_gains_at_batches_where_all_experts_are_read_anyway() -> None:
    """R64: verification touches more experts. At 64 sequences a plain step reads them all."""
    shape = known_shape("Qwen3-30B-A3B")
    assert shape is not None
    moe = replace(H100_8B, shape=shape, device=shipped_catalogue().device("H200-SXM"))
    tokens = tokens_per_iteration(0.5, 4)
    gains = [
        batch_speed_up(tokens, 4, times_of(moe, 4, batch, 0.05, context=1024)) for batch in (1, 64)
    ]
    assert gains[0] < 1 < gains[1]


def test_long_contexts_keep_large_batches_worth_speculating_on() -> None:
    """Attention reads the context once for K + 1 positions: the longer, the later the turn."""
    tokens = tokens_per_iteration(0.7, 4)
    short = batch_speed_up(tokens, 4, times_of(H100_8B, 4, 256, 0.05, context=128))
    long = batch_speed_up(tokens, 4, times_of(H100_8B, 4, 256, 0.05, context=8192))
    assert short < 1 < long


def test_the_best_depth_falls_with_the_batch_and_ends_at_off() -> None:
    depths = [
        best_depth(0.6, 8, lambda depth, b=batch: times_of(H100_8B, depth, b, 0.05))[0]  # type: ignore[misc]
        for batch in (1, 64, 128, 256, 1024)
    ]
    assert depths == sorted(depths, reverse=True)
    assert depths[0] >= 3
    assert depths[-1] == 0


def test_a_fixed_depth_is_wrong_for_all_loads() -> None:
    low, high = (times_of(H100_8B, 6, batch, 0.05) for batch in (1, 256))
    tokens = tokens_per_iteration(0.7, 6)
    assert batch_speed_up(tokens, 6, low) > 1 > batch_speed_up(tokens, 6, high)


def test_verifying_on_a_mixture_of_experts_touches_more_of_them() -> None:
    """R64: 2.04 tokens per iteration gave 1.37 times on Qwen3-30B-A3B, 1.70 on a dense 8B."""
    moe = on_h100("Qwen3-30B-A3B")
    sparse, dense = times_of(moe, 3, 1, 0.05), times_of(H100_8B, 3, 1, 0.05)
    assert sparse.step_ratio(3) > 1.4 * dense.step_ratio(3)


def test_a_slow_drafter_with_a_high_rate_loses_to_a_fast_one_with_a_low_rate() -> None:
    assert speed_up(0.9, 4, 0.5) < speed_up(0.6, 4, 0.02)


@given(st.floats(0.01, 0.99), st.integers(1, 12))
def test_the_acceptance_rate_falls_with_depth_by_arithmetic_alone(
    acceptance: float, depth: int
) -> None:
    shallow = expected_accepted_tokens(acceptance, depth) / depth
    deep = expected_accepted_tokens(acceptance, depth + 1) / (depth + 1)
    assert deep < shallow


@pytest.mark.parametrize("acceptance", [-0.1, 1.2, math.nan])
def test_an_acceptance_outside_zero_to_one_is_refused(acceptance: float) -> None:
    with pytest.raises(ConfigurationError, match=r"acceptance is .*: give a number from 0 to 1"):
        tokens_per_iteration(acceptance, 4)


def test_a_negative_draft_ratio_or_depth_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="draft_ratio"):
        speed_up(0.5, 4, -0.1)
    with pytest.raises(ConfigurationError, match="depth is -1"):
        tokens_per_iteration(0.5, -1)
