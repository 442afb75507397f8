"""Bubbles."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netgain.cost.pipeline import (
    decode_bubble,
    stage_layers,
    steady_bubble,
    training_bubble,
)


@given(st.integers(1, 64), st.integers(1, 512))
def test_more_microbatches_shrink_the_bubble(stages: int, microbatches: int) -> None:
    bubble = training_bubble(stages, microbatches)
    assert 0 <= bubble < 1
    assert training_bubble(stages, microbatches + 1) <= bubble


def test_one_stage_has_no_bubble() -> None:
    assert training_bubble(1, 1) == 0
    assert steady_bubble([0.4]) == 0
    assert training_bubble(4, 1) == 0.75


def test_unequal_stages_make_everyone_wait() -> None:
    assert steady_bubble([1.0, 1.0, 2.0]) == pytest.approx(1 / 3)


def test_fewer_batches_than_stages_leave_stages_idle() -> None:
    assert decode_bubble(4, 1) == 0.75
    assert decode_bubble(4, 8) == 0


@given(st.integers(1, 200), st.integers(1, 64))
def test_stages_share_all_layers_and_differ_by_one_at_most(layers: int, stages: int) -> None:
    shares = stage_layers(layers, stages)
    assert len(shares) == stages
    assert sum(shares) == layers
    assert max(shares) - min(shares) <= 1
