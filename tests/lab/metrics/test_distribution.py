"""Percentiles, and whether their intervals hold what they promise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netgain.lab.metrics.blocks import TimeBlocks
from netgain.lab.metrics.columns import FloatArray
from netgain.lab.metrics.distribution import PERCENTILES, distribution, share
from netgain.lab.metrics.estimate import t_quantile, t_tail, wilson
from netgain.lab.metrics.quantiles import WeightedSample

values = st.lists(st.floats(0, 1000), min_size=1, max_size=40)


@given(values=values, data=st.data(), probability=st.floats(0, 1))
def test_weighted_quantiles_are_numpys_of_the_values_repeated(
    values: list[float], data: st.DataObject, probability: float
) -> None:
    weights = data.draw(st.lists(st.integers(1, 5), min_size=len(values), max_size=len(values)))
    sample = WeightedSample.of(np.array(values), np.array(weights, dtype=np.float64))
    repeated = np.repeat(values, weights)
    assert sample.quantile(probability) == pytest.approx(np.quantile(repeated, probability))


def test_percentiles_are_linear_and_come_with_mean_and_extremes() -> None:
    found = distribution(np.arange(1.0, 101.0), np.arange(100.0), TimeBlocks(0, 100, 10))
    assert found is not None
    assert (found.n, found.mean.value, found.minimum, found.maximum) == (100, 50.5, 1.0, 100.0)
    assert found.p50.value == pytest.approx(50.5)
    assert found.p90.value == pytest.approx(90.1)
    assert found.p95.value == pytest.approx(95.05)
    assert found.p99.value == pytest.approx(99.01)


def test_what_does_not_exist_is_left_out_and_nothing_gives_nothing() -> None:
    blocks = TimeBlocks(0, 4, 4)
    found = distribution(np.array([1.0, np.nan, 3.0]), np.array([0.0, 1, 2]), blocks)
    assert found is not None
    assert (found.n, found.mean.value) == (2, 2.0)
    assert distribution(np.array([np.nan]), np.zeros(1), blocks) is None
    assert distribution(np.ones(1), np.zeros(1), blocks, weights=np.zeros(1)) is None


def test_a_single_value_has_no_interval() -> None:
    found = distribution(np.array([7.0]), np.zeros(1), TimeBlocks(0, 1, 4))
    assert found is not None
    assert found.p99.value == 7.0
    assert (found.p99.low, found.p99.high, found.mean.low) == (None, None, None)


def test_the_interval_of_a_mean_time_does_not_reach_below_nothing() -> None:
    found = distribution(np.array([0.01, 0.01, 0.01, 5.0]), np.arange(4.0), TimeBlocks(0, 4, 4))
    assert found is not None
    assert found.mean.low == 0.0


def test_token_weights_count_a_value_as_often_as_its_tokens() -> None:
    found = distribution(
        np.array([1.0, 2.0]), np.array([0.0, 1.0]), TimeBlocks(0, 2, 2), np.array([9.0, 1.0])
    )
    assert found is not None
    assert (found.n, found.mean.value, found.p50.value) == (10, 1.1, 1.0)


def test_fifty_requests_have_no_upper_bound_for_their_99th_percentile() -> None:
    draw = np.random.default_rng(5).exponential(1.0, 50)
    found = distribution(draw, np.arange(50.0), TimeBlocks(0, 50, 10))
    assert found is not None
    assert found.p99.high is None
    assert found.p50.low is not None
    assert found.p50.high is not None


def correlated(seed: int, count: int, memory: float) -> FloatArray:
    """Values with a normal margin; each remembers the one before."""
    draw = np.random.default_rng(seed)
    noise = draw.standard_normal(count) * np.sqrt(1 - memory**2)
    series = np.empty(count)
    series[0] = draw.standard_normal()
    for i in range(1, count):
        series[i] = memory * series[i - 1] + noise[i]
    return series


@pytest.mark.parametrize("memory", [0.0, 0.8])
def test_intervals_hold_the_true_value_about_as_often_as_they_say(memory: float) -> None:
    truth = {50: 0.0, 90: 1.2815516, 95: 1.6448536, 99: 2.3263479}
    count, runs = 1000, 300
    blocks = TimeBlocks(0, count, 20)
    caught = dict.fromkeys([*PERCENTILES, "mean"], 0)
    for seed in range(runs):
        found = distribution(correlated(seed, count, memory), np.arange(float(count)), blocks)
        assert found is not None
        for p, true in truth.items():
            bound = found.percentiles[p]
            low = -np.inf if bound.low is None else bound.low
            high = np.inf if bound.high is None else bound.high
            caught[p] += low <= true <= high
        assert found.mean.low is not None
        assert found.mean.high is not None
        caught["mean"] += found.mean.low <= 0 <= found.mean.high
    # 95 % of 300 is 285, give or take 4; blocks shorter than the memory's reach cost a little.
    assert all(270 <= held <= 300 for held in caught.values()), caught


def test_correlated_requests_get_wider_intervals_than_independent_ones() -> None:
    blocks, at_s = TimeBlocks(0, 2000, 20), np.arange(2000.0)

    def width(memory: float) -> float:
        found = distribution(correlated(3, 2000, memory), at_s, blocks)
        assert found is not None
        assert found.p50.low is not None
        assert found.p50.high is not None
        return found.p50.high - found.p50.low

    assert width(0.9) > 2 * width(0.0)


def test_a_share_seen_in_clusters_is_worth_fewer_trials() -> None:
    at_s = np.arange(400.0)
    scattered = (np.random.default_rng(1).random(400) < 0.9).astype(np.float64)
    clustered = np.sort(scattered)  # all the misses at the beginning
    blocks = TimeBlocks(0, 400, 20)
    assert share(scattered, at_s, blocks)[1] > 200
    assert share(clustered, at_s, blocks)[1] < 60


def test_a_perfect_share_is_not_certain() -> None:
    found, trials = share(np.ones(100), np.arange(100.0), TimeBlocks(0, 100, 20))
    assert (found.value, trials) == (1.0, 100)
    assert found.low is not None
    assert 0.94 < found.low < 0.97


@pytest.mark.parametrize(
    ("probability", "degrees", "expected"),
    [
        (0.975, 1, 12.7062),
        (0.975, 2, 4.3027),
        (0.975, 5, 2.5706),
        (0.95, 9, 1.8331),
        (0.975, 19, 2.0930),
    ],
)
def test_students_quantiles_agree_with_the_tables(
    probability: float, degrees: int, expected: float
) -> None:
    assert t_quantile(probability, degrees) == pytest.approx(expected, rel=0.005)
    assert t_tail(expected, degrees) == pytest.approx(1 - probability, rel=0.03)


def test_wilsons_interval_agrees_with_a_published_value() -> None:
    # 81 of 263: [0.2553, 0.3662] (Newcombe 1998, method 3).
    low, high = wilson(81 / 263, 263, 1.959964)
    assert (low, high) == pytest.approx((0.2553, 0.3662), abs=5e-5)
