"""KV below the device: SPEC 12's values, codecs, races, hit rates."""

import random
from collections import OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netgain.cost.interactions import fleet_hit_rate
from netgain.cost.tiers import (
    Reuse,
    TierPath,
    break_even_tokens,
    characteristic_time,
    codec_break_even_bytes_per_s,
    coded_s,
    distinct_items,
    infinite_cache_hit_rate,
    layer_pipelined_s,
    least_useful_bytes_per_s,
    lru_hit_rate_from_empty,
    race_s,
    race_share_computed,
    request_hit_rate,
    reuse_pays,
    token_hit_rate,
    transfer_s,
    warm_s,
    zipf,
)
from netgain.errors import ConfigurationError

GIB = 1 << 30


def test_four_gib_over_sixteen_gib_a_second_lose_to_a_short_prefill_and_beat_a_long_one() -> None:
    moved = transfer_s(4 * GIB, 16 * GIB)
    assert moved == pytest.approx(0.250)
    warm = warm_s(0.0, 0.0, moved, 0.0, 0.0)
    assert not reuse_pays(warm, 0.180)
    assert reuse_pays(warm, 2.0)


def test_few_long_hits_save_more_than_many_short_ones() -> None:
    many, few = Reuse(90, 16), Reuse(10, 50_000)
    assert many.tokens == 1_440
    assert few.tokens == 500_000
    assert request_hit_rate([many], 100) > request_hit_rate([few], 100)
    assert token_hit_rate([many], 1_000_000) < token_hit_rate([few], 1_000_000)


def test_one_disk_is_useful_for_an_8b_on_an_h100_and_one_s3_stream_is_not() -> None:
    """10,000 tokens in 572 ms and 131,072 bytes a token: above 2.3 GB/s reloading wins."""
    least = least_useful_bytes_per_s(131_072, 0.572 / 10_000)
    assert least == pytest.approx(2.3e9, rel=0.01)
    assert 0.09e9 < least < 6.5e9


@given(st.floats(1e8, 1e11), st.floats(0, 0.2), st.floats(1e-6, 1e-3))
def test_loading_wins_from_its_break_even_on_and_not_before(
    rate: float, latency: float, prefill: float
) -> None:
    path = TierPath("tier", rate, latency)
    tokens = break_even_tokens(path, 131_072, prefill)
    if tokens is None:
        assert 131_072 / rate >= prefill or latency / (prefill - 131_072 / rate) >= (1 << 30) - 1
        return
    assert path.load_s(tokens * 131_072) < tokens * prefill * (1 + 1e-9)
    if tokens > 1:
        fewer = tokens - 1
        assert path.load_s(fewer * 131_072) >= fewer * prefill * (1 - 1e-9)


def test_deserialising_is_part_of_a_load() -> None:
    plain, coded = TierPath("a", 1e9), TierPath("a", 1e9, decode_bytes_per_s=1e9)
    assert coded.load_s(1e9) == pytest.approx(2 * plain.load_s(1e9))


@given(st.floats(1e6, 1e10), st.floats(1.1, 10), st.floats(1e-3, 1))
def test_a_codec_pays_exactly_below_its_break_even(size: float, ratio: float, took: float) -> None:
    rate = codec_break_even_bytes_per_s(size, ratio, took)
    assert coded_s(size, ratio, rate, took) == pytest.approx(transfer_s(size, rate))
    assert coded_s(size, ratio, rate * 0.9, took) < transfer_s(size, rate * 0.9)
    assert coded_s(size, ratio, rate * 1.1, took) > transfer_s(size, rate * 1.1)


def test_a_codec_that_shrinks_nothing_never_pays() -> None:
    assert codec_break_even_bytes_per_s(1e9, 1.0, 0.1) == 0
    assert codec_break_even_bytes_per_s(1e9, 4.0, 0.0) == float("inf")


@given(st.floats(1e-3, 100), st.floats(1e-3, 100))
def test_computing_and_loading_from_both_ends_beats_either(load: float, compute: float) -> None:
    both = race_s(load, compute)
    assert both < min(load, compute)
    share = race_share_computed(load, compute)
    assert share * compute == pytest.approx(both)
    assert (1 - share) * load == pytest.approx(both)


def test_the_race_reaches_cakes_reductions() -> None:
    """R12: 68.1 % less than compute alone where loading is about half as long again."""
    compute = 1.0
    load = 0.319 / 0.681
    assert 1 - race_s(load, compute) / compute == pytest.approx(0.681, abs=0.001)


def test_a_slow_tier_alone_loses_by_nineteen_twentieths_to_both_ends() -> None:
    """R12: 94.6 % less than input/output alone."""
    assert 1 - race_s(1.0, 0.054 / 0.946) / 1.0 == pytest.approx(0.946, abs=0.001)


@given(st.floats(0, 10), st.floats(0, 10), st.integers(1, 128))
def test_pipelining_layers_hides_all_but_one_of_them(
    load: float, compute: float, layers: int
) -> None:
    seconds = layer_pipelined_s(load, compute, layers)
    assert max(load, compute) <= seconds <= load + compute + 1e-9


def test_one_layer_cannot_be_pipelined() -> None:
    assert layer_pipelined_s(2.0, 3.0, 1) == 5.0


def test_an_infinite_cache_misses_each_item_once() -> None:
    assert infinite_cache_hit_rate(30, 100) == pytest.approx(0.7)
    with pytest.raises(ConfigurationError, match="distinct / requests"):
        infinite_cache_hit_rate(101, 100)


@given(st.integers(2, 400), st.floats(0, 2.0), st.floats(0.01, 0.999))
def test_what_a_cache_holds_after_its_characteristic_time_is_its_capacity(
    items: int, exponent: float, share: float
) -> None:
    popularity = zipf(items, exponent)
    time = characteristic_time(popularity, share * items)
    assert distinct_items(popularity, time) == pytest.approx(share * items, rel=1e-6)


def test_no_capacity_hits_more_than_an_infinite_cache() -> None:
    popularity = zipf(500, 0.9)
    most = infinite_cache_hit_rate(distinct_items(popularity, 2_000), 2_000)
    assert lru_hit_rate_from_empty(popularity, 500, 2_000) == pytest.approx(most)
    assert lru_hit_rate_from_empty(popularity, 50, 2_000) < most


@given(st.integers(10, 200), st.floats(0, 1.5), st.integers(1, 9))
def test_the_characteristic_time_fills_the_cache(
    items: int, exponent: float, capacity: int
) -> None:
    popularity = zipf(items, exponent)
    time = characteristic_time(popularity, capacity)
    held = sum(1 - (1 - p) ** time for p in popularity)
    assert held == pytest.approx(capacity, rel=0.35)  # exp(-pT) for (1-p)^T


def simulated_lru(popularity: tuple[float, ...], capacity: int, requests: int, seed: int) -> float:
    drawn = random.Random(seed).choices(range(len(popularity)), popularity, k=requests)
    held: OrderedDict[int, None] = OrderedDict()
    hits = 0
    for item in drawn:
        if item in held:
            hits += 1
            held.move_to_end(item)
            continue
        held[item] = None
        if len(held) > capacity:
            held.popitem(last=False)
    return hits / requests


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("exponent", [0.6, 1.0, 1.3])
@pytest.mark.parametrize("capacity", [10, 100, 400])
def test_ches_approximation_agrees_with_a_simulated_lru(
    exponent: float, capacity: int, seed: int
) -> None:
    popularity = zipf(500, exponent)
    measured = simulated_lru(popularity, capacity, 20_000, seed)
    assert lru_hit_rate_from_empty(popularity, capacity, 20_000) == pytest.approx(
        measured, abs=0.015
    )


@pytest.mark.parametrize("requests", [50, 300, 1500])
def test_a_short_run_from_empty_agrees_with_a_simulated_lru(requests: int) -> None:
    popularity = zipf(500, 0.9)
    runs = [simulated_lru(popularity, 300, requests, seed) for seed in range(30)]
    assert lru_hit_rate_from_empty(popularity, 300, requests) == pytest.approx(
        sum(runs) / len(runs), abs=0.02
    )


def test_a_wider_tier_gains_nothing_without_routing_by_prefix() -> None:
    """SPEC 2's second interaction: at random each replica only sees an n-th of the requests."""
    popularity = zipf(2_000, 0.8)

    def hits(capacity: int, by_prefix: bool) -> float:
        return fleet_hit_rate(popularity, capacity, 8, 4_000, by_prefix)

    seen_by_one = 4_000 // 8
    narrow, wide = seen_by_one, 4 * seen_by_one
    assert hits(wide, by_prefix=False) - hits(narrow, by_prefix=False) < 1e-6
    assert hits(narrow, by_prefix=True) > hits(wide, by_prefix=False) + 0.2
    assert hits(200, by_prefix=True) > hits(50, by_prefix=True) + 0.1


def test_one_replica_does_not_care_how_it_is_routed_to() -> None:
    popularity = zipf(100, 1.0)
    assert fleet_hit_rate(popularity, 20, 1, 500, True) == fleet_hit_rate(
        popularity, 20, 1, 500, False
    )


def test_a_tier_without_bandwidth_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="disk bandwidth is 0"):
        TierPath("disk", 0)
