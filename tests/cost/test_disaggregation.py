"""Separate pools: SPEC 11's link, balance, when not to separate, the case that loses."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netgain.cost.disaggregation import (
    DECODE_FACTOR,
    PREFILL_FACTOR,
    Situation,
    balanced_ratio,
    decode_rate_per_s,
    link_use,
    net_per_request_s,
    pool_rates,
    pools_needed,
    prefill_rate_per_s,
    reasons_against,
    splits,
    too_full,
    transfer_bytes_per_s,
    ttft_s,
    unified_pool,
)
from netgain.cost.interactions import ratio_with_speculation
from netgain.cost.queueing import Service, waiting_s
from netgain.errors import ConfigurationError

GIB = 1 << 30
PLAIN = Situation(
    prefill_s=0.5, decode_step_s=0.02, rate_per_s=8, prefill_per_s=2, decode_per_s=4, link_use=0.2,
    instances=4,
)  # fmt: skip


def test_eight_prefills_a_second_of_1_2_gib_fill_four_fifths_of_12_gib_a_second() -> None:
    assert transfer_bytes_per_s(1.2 * GIB, 8) == pytest.approx(9.6 * GIB)
    use = link_use(1.2 * GIB, 8, 12 * GIB)
    assert use == pytest.approx(0.8)
    assert too_full(use)


def test_distserves_example_needs_this_much_network() -> None:
    """OPT-66B, 512 tokens, 10 requests/s: 96.6 Gb/s."""
    assert transfer_bytes_per_s(512 * 2_359_296, 10) * 8 / 1e9 == pytest.approx(96.6, abs=0.05)


def test_balance_is_the_inverse_of_the_rates() -> None:
    assert balanced_ratio(prefill_per_s=2.0, decode_per_s=4.0) == 2.0


def test_pools_follow_the_rates_of_one_instance() -> None:
    # 10/s of 0.2 s prefills: 2 instances busy, 2.5 at 80 %. 200 tokens of 25 ms at batch 32.
    assert pools_needed(10, 0.2, 200, 0.025, 32) == (3, 2)


@given(st.floats(0.1, 100), st.floats(0.01, 2), st.integers(1, 500), st.integers(1, 256))
def test_the_pools_that_are_needed_carry_the_traffic(
    rate: float, prefill_s: float, output: int, batch: int
) -> None:
    x, y = pools_needed(rate, prefill_s, output, 0.02, batch)
    assert x * prefill_rate_per_s(prefill_s) * 0.8 >= rate * (1 - 1e-6)
    assert y * decode_rate_per_s(batch, 0.02, output) * 0.8 >= rate * (1 - 1e-6)
    if x > 1:
        assert (x - 1) * prefill_rate_per_s(prefill_s) * 0.8 < rate


def test_the_smaller_of_two_pools_sets_the_rate() -> None:
    rates = pool_rates(2, 2, prefill_per_s=4, decode_per_s=1)
    assert rates.requests_per_s == pytest.approx(2 * DECODE_FACTOR)
    assert rates.bound_by == "decode"
    assert pool_rates(1, 3, 1, 4).bound_by == "prefill"
    assert pool_rates(1, 3, 1, 4).requests_per_s == pytest.approx(PREFILL_FACTOR)


def test_a_link_can_be_what_stops_both_pools() -> None:
    rates = pool_rates(2, 2, 8, 8, kv_bytes_per_request=GIB, link_bytes_per_s=4 * GIB)
    assert rates.bound_by == "link"
    assert rates.requests_per_s == pytest.approx(2 * 4 * 0.7)


@given(st.floats(0.2, 20), st.floats(0.2, 20), st.integers(2, 16))
def test_the_best_split_is_nearest_to_the_balance(
    prefill: float, decode: float, instances: int
) -> None:
    best = max(
        (pool_rates(x, y, prefill, decode) for x, y in splits(instances)),
        key=lambda rates: rates.requests_per_s,
    )
    x, y = best.prefill_instances, best.decode_instances
    # Moving one instance either way starves the other pool.
    for dx in (-1, 1):
        if x + dx >= 1 and y - dx >= 1:
            other = pool_rates(x + dx, y - dx, prefill, decode)
            assert other.requests_per_s <= best.requests_per_s
    assert 0 <= best.idle < 1


def test_one_instance_cannot_be_split() -> None:
    assert list(splits(1)) == []


def test_ttft_adds_what_lies_between_the_pools() -> None:
    assert ttft_s(0.1, 0.5, 0.02, 0.05, 0.03) == pytest.approx(0.7)


def test_mixed_steps_take_the_share_that_prompts_bring() -> None:
    # 1 prompt/s of 2 mixed steps of 150 ms: 0.3 s of each second; 0.7 s hold 23.3 plain steps.
    pool = unified_pool(1, 1.0, 2, 100, 16, plain_itl_s=0.03, mixed_itl_s=0.15)
    assert pool.mixed_share == pytest.approx(2 / (2 + 0.7 / 0.03))
    assert pool.plain_itl_s < pool.mean_itl_s < pool.mixed_itl_s


@given(st.floats(0.0, 50.0))
def test_the_share_of_mixed_steps_is_a_share(rate: float) -> None:
    pool = unified_pool(2, rate, 3, 200, 16, 0.02, 0.1)
    assert 0 <= pool.mixed_share <= 1


def test_one_prefill_worker_saturates_whatever_the_decode_pool_can_do() -> None:
    """R77: isl 8000 on one prefill engine saturates near 4.5/s; at 6/s the queue has no end."""
    rates = pool_rates(1, 8, prefill_per_s=4.6, decode_per_s=4)
    assert rates.bound_by == "prefill"
    assert rates.requests_per_s < 4.5
    prefill = Service(1 / 4.6, variation=0.0)
    assert waiting_s(6, prefill) == math.inf
    assert waiting_s(4.4, prefill) > 5 * waiting_s(2.3, prefill)


def test_nothing_speaks_against_a_long_prompt_on_enough_instances() -> None:
    assert reasons_against(PLAIN) == ()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"prefill_s": 0.01}, "prompts are short"),
        ({"rate_per_s": 0.5}, "traffic is too small"),
        ({"outside_share": 0.8}, "80% of TTFT is queue"),
        ({"link_use": 0.8}, "80% full"),
        ({"observed": False}, "P:D ratio cannot be kept"),
        ({"instances": 1}, "two pools need two"),
    ],
)
def test_each_reason_not_to_separate_is_named(change: dict[str, float], says: str) -> None:
    from dataclasses import replace

    reasons = reasons_against(replace(PLAIN, **change))  # type: ignore[arg-type]
    assert any(says in reason for reason in reasons)


def test_separation_gains_the_interference_and_pays_the_handoff() -> None:
    assert net_per_request_s(0.12, 10, visible_handoff_s=0.03) == pytest.approx(1.17)
    assert net_per_request_s(0.001, 10, visible_handoff_s=0.03) < 0


def test_speculation_in_the_decode_pool_asks_for_more_prefill() -> None:
    """SPEC 2's first interaction: the P:D ratio changes by the speed-up at the pool's batch."""
    shift = ratio_with_speculation(prefill_per_s=4, decode_per_s=2, decode_speed_up=1.5)
    assert shift.before == 0.5
    assert shift.after == pytest.approx(0.75)
    assert shift.idle_decode == pytest.approx(1 / 3)
    # Left at 2:4 the whole gains nothing; at 3:4 it gains what speculation gave.
    assert pool_rates(2, 4, 4, 2 * 1.5).requests_per_s == pytest.approx(
        pool_rates(2, 4, 4, 2).requests_per_s, rel=0.03
    )
    assert pool_rates(3, 4, 4, 2 * 1.5).requests_per_s > 1.4 * pool_rates(2, 4, 4, 2).requests_per_s


def test_speculation_that_loses_at_the_pools_batch_asks_for_less_prefill() -> None:
    shift = ratio_with_speculation(4, 2, decode_speed_up=0.8)
    assert shift.after < shift.before
    assert shift.idle_decode == 0


@pytest.mark.parametrize("rate", [0, -1, math.nan])
def test_empty_or_negative_traffic_is_refused(rate: float) -> None:
    with pytest.raises(ConfigurationError, match="rate_per_s"):
        pools_needed(rate, 0.2, 100, 0.02, 8)
