"""Experts on ranks: SPEC 10's example, de-duplication, skew."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netgain.cost.expert_traffic import (
    Copy,
    RoutedToken,
    contiguous_placement,
    crossing_copies,
    dispatch_bytes,
    expected_nodes,
    slowest_rank,
)
from netgain.cost.intensity import distinct_experts


def test_the_three_tokens_of_the_example_cross_as_they_must() -> None:
    ranks = contiguous_placement(experts=4, ranks=2)
    assert ranks == {0: 0, 1: 0, 2: 1, 3: 1}
    tokens = [
        RoutedToken("A", 0, (0, 2)),
        RoutedToken("B", 0, (1, 0)),
        RoutedToken("C", 1, (3, 1)),
    ]
    assert crossing_copies(tokens, ranks) == (Copy("A", 0, 1), Copy("C", 1, 0))


def test_two_experts_on_one_far_rank_need_one_copy() -> None:
    ranks = contiguous_placement(4, 2)
    assert crossing_copies([RoutedToken("A", 0, (2, 3))], ranks) == (Copy("A", 0, 1),)


def test_low_latency_payloads_are_what_deepep_moves() -> None:
    """R16: 128 tokens x top 8 x 7168 in fp8 are 7.34 MB per rank, 14.7 in bf16."""
    everything = dispatch_bytes(128, 8, 7168, 1, ranks=256, ranks_per_node=8)
    assert (everything.inside + everything.between) * 256 / 255 == pytest.approx(7.34e6, rel=1e-3)
    back = dispatch_bytes(128, 8, 7168, 2, ranks=256, ranks_per_node=8)
    assert (back.inside + back.between) * 256 / 255 == pytest.approx(14.7e6, rel=2e-3)


@given(st.integers(1, 16), st.integers(1, 8), st.integers(1, 16))
def test_a_node_limit_never_sends_more_between_nodes(top_k: int, limit: int, nodes: int) -> None:
    each = dispatch_bytes(64, top_k, 1024, 1, 8 * nodes, 8)
    once = dispatch_bytes(64, top_k, 1024, 1, 8 * nodes, 8, limit, once_per_node=True)
    assert once.between <= each.between * min(top_k, limit) / top_k * (1 + 1e-9)
    assert once.between <= 64 * 1024 * (nodes - 1) * (1 + 1e-9)  # once to each other node
    assert once.inside >= each.inside


def test_a_limit_below_the_nodes_reached_is_the_usual_form() -> None:
    """DeepSeek-V3: top 8, at most 4 of 18 nodes: 4 copies of 8, 17 of 18 of them to other nodes."""
    once = dispatch_bytes(128, 8, 7168, 1, 144, 8, node_limit=4, once_per_node=True)
    assert once.between == pytest.approx(128 * 8 * 7168 * (4 / 8) * 17 / 18)


def test_between_two_nodes_a_token_crosses_at_most_once() -> None:
    once = dispatch_bytes(1, 8, 1000, 1, 16, 8, once_per_node=True)
    assert once.between == pytest.approx(1000 * (1 - 0.5**8))


def test_one_device_a_node_hands_nothing_on() -> None:
    assert dispatch_bytes(64, 8, 1024, 1, 4, 1, once_per_node=True).inside == 0


def test_within_one_node_nothing_crosses_between_nodes() -> None:
    assert dispatch_bytes(64, 8, 1024, 1, ranks=8, ranks_per_node=8).between == 0
    assert dispatch_bytes(64, 8, 1024, 1, ranks=1, ranks_per_node=8).inside == 0


def test_node_limited_routing_bounds_the_nodes_that_a_token_reaches() -> None:
    assert expected_nodes(8, 8, node_limit=4) == 4
    assert expected_nodes(8, 8) == pytest.approx(8 * (1 - (7 / 8) ** 8))
    assert expected_nodes(8, 1) == 1


@pytest.mark.parametrize(("tokens", "measured"), [(8, 1.68), (16, 1.33), (64, 1.07), (128, 1.13)])
def test_the_fullest_of_8_expert_ranks_reads_more_than_the_mean(
    tokens: int, measured: float
) -> None:
    """Whole experts on 8 ranks over slices of all, DeepSeek-V3 on an H200 (vLLM 0.18, 45 us of
    launches taken off both): aiconfigurator 095f58a5, power law 1.01."""
    met = distinct_experts(256, 8, tokens) / 256
    assert slowest_rank(8, 256, met) == pytest.approx(measured, rel=0.15)


def test_expert_ranks_are_equal_where_there_is_one_or_every_expert_is_met() -> None:
    assert slowest_rank(1, 128, 0.3) == 1.0
    assert slowest_rank(8, 128, 1.0) == 1.0
    assert slowest_rank(128, 128, 0.1) <= 10.0 + 1e-9
