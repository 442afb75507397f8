"""Lengths are drawn from what was written."""

import math
import random

import pytest

from netgain.lab.workloads.distribution import (
    Distribution,
    Fixed,
    LogNormal,
    Uniform,
    parse_distribution,
    whole,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("256", Fixed(256)),
        ("0.5", Fixed(0.5)),
        ("128..512", Uniform(128, 512)),
        ("lognormal/512/0.8", LogNormal(512, 0.8)),
        ("lognormal/512/0.8/16..4096", LogNormal(512, 0.8, 16, 4096)),
        ("lognormal/4/0.7/0.2..", LogNormal(4, 0.7, 0.2, math.inf)),
    ],
)
def test_a_distribution_is_what_its_text_says(text: str, expected: Distribution) -> None:
    assert parse_distribution(text) == expected
    assert parse_distribution(str(expected)) == expected


@pytest.mark.parametrize(
    "text", ["", "abc", "-1", "nan", "5..1", "1..", "lognormal/5", "lognormal/0/1", "1/2", "5..x"]
)
def test_a_text_that_is_no_distribution_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(ValueError, match=r"lognormal/MEDIAN/SIGMA"):
        parse_distribution(text)


def test_a_lognormal_has_its_median_and_its_mean() -> None:
    rng = random.Random(1)
    made = LogNormal(100, 0.5)
    drawn = sorted(made.draw(rng) for _ in range(20_000))
    assert drawn[10_000] == pytest.approx(100, rel=0.03)
    assert sum(drawn) / len(drawn) == pytest.approx(made.mean, rel=0.03)
    assert made.mean == pytest.approx(100 * math.exp(0.125))


def test_limits_hold_and_a_length_is_at_least_one() -> None:
    rng = random.Random(1)
    drawn = [LogNormal(100, 3, 50, 200).draw(rng) for _ in range(200)]
    assert (min(drawn), max(drawn)) == (50, 200)
    assert whole(Fixed(0), rng) == 1
