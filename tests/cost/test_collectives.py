"""Collectives among equal ranks: limits, orders, nccl-tests' definitions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netgain.cost.collectives import (
    Operation,
    broadcast_s,
    busbw_bytes_per_s,
    busbw_factor,
    direct_all_reduce_s,
    in_switch_all_reduce_s,
    ring_all_reduce_s,
    ring_pass_s,
    send_s,
    tree_all_reduce_s,
)
from netgain.errors import ConfigurationError

SIZES = st.floats(0, 1e10)
RANKS = st.integers(1, 512)


@pytest.mark.parametrize(
    "form",
    [ring_all_reduce_s, ring_pass_s, tree_all_reduce_s, in_switch_all_reduce_s,
     direct_all_reduce_s, broadcast_s],
)  # fmt: skip
def test_one_rank_has_nobody_to_talk_to(form: object) -> None:
    assert callable(form)
    assert form(1e9, 1, 1e9, 1e-6) == 0


@given(SIZES, RANKS)
def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather(size: float, ranks: int) -> None:
    assert ring_all_reduce_s(size, ranks, 1e11, 1e-6) == pytest.approx(
        2 * ring_pass_s(size, ranks, 1e11, 1e-6)
    )


def test_two_ranks_move_the_buffer_once_each() -> None:
    assert ring_all_reduce_s(1e9, 2, 1e9, 0) == pytest.approx(1.0)


@given(st.integers(5, 512))
def test_small_messages_prefer_a_tree_and_large_ones_a_ring(ranks: int) -> None:
    assert tree_all_reduce_s(1e3, ranks, 1e11, 1e-6) < ring_all_reduce_s(1e3, ranks, 1e11, 1e-6)
    assert tree_all_reduce_s(1e9, ranks, 1e11, 0) > ring_all_reduce_s(1e9, ranks, 1e11, 0)


@given(st.integers(3, 512), st.floats(1e6, 1e10))
def test_adding_in_the_switch_moves_less_than_a_ring_can(ranks: int, size: float) -> None:
    ring = ring_all_reduce_s(size, ranks, 1e11, 1e-6)
    switch = in_switch_all_reduce_s(size, ranks, 1e11, 1e-6)
    assert switch < ring
    assert busbw_bytes_per_s(Operation.ALL_REDUCE, ranks, size, size / 1e11) > 1e11


@given(st.integers(2, 512), st.floats(1.0, 1e10))
def test_a_ring_without_latency_has_the_links_bus_bandwidth(ranks: int, size: float) -> None:
    seconds = ring_all_reduce_s(size, ranks, 1e11, 0)
    assert busbw_bytes_per_s(Operation.ALL_REDUCE, ranks, size, seconds) == pytest.approx(1e11)
    seconds = ring_pass_s(size, ranks, 1e11, 0)
    assert busbw_bytes_per_s(Operation.ALL_GATHER, ranks, size, seconds) == pytest.approx(1e11)


def test_busbw_factors_are_nccl_tests() -> None:
    assert busbw_factor(Operation.ALL_REDUCE, 8) == 1.75
    assert busbw_factor(Operation.ALL_TO_ALL, 8) == 0.875
    assert busbw_factor(Operation.BROADCAST, 8) == 1


def test_a_send_pays_each_hop() -> None:
    assert send_s(1e6, 1e9, 1e-3, hops=3) == pytest.approx(4e-3)


def test_negative_sizes_and_no_bandwidth_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="size_bytes is -1"):
        ring_pass_s(-1, 2, 1e9, 0)
    with pytest.raises(ConfigurationError, match="rank_bytes_per_s is 0"):
        ring_pass_s(1, 2, 0, 0)
