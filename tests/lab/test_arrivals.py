import itertools
import statistics
from itertools import pairwise

import pytest

from netgain.errors import ConfigurationError
from netgain.lab.arrivals import Arrivals, Constant, Gamma, Ramp, Step, poisson

COUNT = 20_000


def first(arrivals: Arrivals, count: int = COUNT, seed: int = 1) -> list[float]:
    return list(itertools.islice(arrivals.offsets(seed), count))


def within(offsets: list[float], from_s: float, to_s: float) -> int:
    return sum(from_s <= offset < to_s for offset in offsets)


def test_constant_arrivals_are_evenly_spaced_without_drift() -> None:
    offsets = first(Constant(4.0))
    assert offsets[:3] == [0.0, 0.25, 0.5]
    assert offsets[-1] == (COUNT - 1) / 4.0


@pytest.mark.parametrize("burstiness", [0.25, 1.0, 4.0])
def test_gamma_gaps_have_the_rate_and_the_dispersion(burstiness: float) -> None:
    offsets = first(Gamma(10.0, burstiness))
    gaps = [after - before for before, after in pairwise(offsets)]
    mean = statistics.fmean(gaps)
    assert mean == pytest.approx(0.1, rel=0.05)
    assert statistics.pvariance(gaps) / mean**2 == pytest.approx(1 / burstiness, rel=0.1)


def test_poisson_counts_vary_as_much_as_their_mean() -> None:
    offsets = first(poisson(10.0))
    counts = [within(offsets, second, second + 1) for second in range(300)]
    assert statistics.fmean(counts) == pytest.approx(10, rel=0.05)
    assert statistics.pvariance(counts) == pytest.approx(10, rel=0.25)


@pytest.mark.parametrize(("start", "end"), [(10.0, 50.0), (50.0, 10.0), (30.0, 30.0)])
def test_a_ramp_goes_from_one_rate_to_the_other_and_stays(start: float, end: float) -> None:
    ramp = Ramp(start, end, 200.0)
    offsets = first(ramp)
    assert within(offsets, 0, 20) / 20 == pytest.approx(start + (end - start) / 20, rel=0.15)
    assert within(offsets, 180, 200) / 20 == pytest.approx(end - (end - start) / 20, rel=0.15)
    assert within(offsets, 0, 200) / 200 == pytest.approx(ramp.mean_rate, rel=0.05)
    assert within(offsets, 200, 300) / 100 == pytest.approx(end, rel=0.1)


def test_a_step_is_five_times_the_rate_between_its_times() -> None:
    step = Step(20.0, from_s=50.0, to_s=100.0, duration_s=150.0)
    offsets = first(step)
    assert within(offsets, 0, 50) / 50 == pytest.approx(20, rel=0.1)
    assert within(offsets, 50, 100) / 50 == pytest.approx(100, rel=0.1)
    assert within(offsets, 100, 150) / 50 == pytest.approx(20, rel=0.1)
    assert within(offsets, 0, 150) / 150 == pytest.approx(step.mean_rate, rel=0.05)


PROCESSES: list[Arrivals] = [
    poisson(5.0),
    Gamma(5.0, 0.3),
    Ramp(1.0, 9.0, 10.0),
    Ramp(9.0, 1.0, 10.0),
    Step(2.0, from_s=1.0, to_s=3.0, duration_s=9.0),
]


@pytest.mark.parametrize("arrivals", PROCESSES, ids=str)
def test_the_same_seed_gives_the_same_rising_times_and_another_others(arrivals: Arrivals) -> None:
    offsets = first(arrivals, 200)
    assert offsets == first(arrivals, 200)
    assert offsets != first(arrivals, 200, seed=2)
    assert all(before <= after for before, after in pairwise(offsets))


def test_arrivals_are_not_stretched_to_end_when_expected() -> None:
    ends = [first(poisson(10.0), 50, seed)[-1] for seed in range(200)]
    assert sum(ends) / len(ends) == pytest.approx(5.0, rel=0.05)
    assert min(ends) < 4.0
    assert max(ends) > 6.0


@pytest.mark.parametrize("rate", [0.0, -1.0, float("inf"), float("nan")])
def test_a_rate_that_makes_no_load_is_refused(rate: float) -> None:
    for make in (Constant, Gamma, poisson):
        with pytest.raises(ConfigurationError, match="above 0"):
            make(rate)


def test_a_step_outside_the_run_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="within"):
        Step(1.0, from_s=5.0, to_s=11.0, duration_s=10.0)
