"""Moving KV: the published transfers, and what overlap leaves visible."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netgain.cost.kv_transfer import (
    descriptors,
    handoff_s,
    visible_by_chunk_s,
    visible_by_layer_s,
)

QWEN3_8B_BYTES = 147_456
# R1: tokens -> milliseconds to move their KV, 1P1D, TP8 on H800, eight adapters (200 GB/s).
MOONCAKE = {128: 0.54, 1024: 1.50, 4096: 4.75, 8192: 8.84, 32768: 31.65}
TTFT_MS = {128: 46.09, 1024: 67.29, 4096: 124.42, 8192: 212.05, 32768: 749.62}


def test_the_longest_published_transfer_is_76_percent_of_the_nominal_rate() -> None:
    rate = 32768 * QWEN3_8B_BYTES / (MOONCAKE[32768] * 1e-3)
    assert rate / (1 << 30) == pytest.approx(142.25, rel=0.001)
    assert rate / 200e9 == pytest.approx(0.76, abs=0.005)
    assert MOONCAKE[32768] / TTFT_MS[32768] == pytest.approx(0.042, abs=0.001)


def test_joined_layers_need_fewer_records() -> None:
    assert descriptors(100, 16, 32) == 7
    assert descriptors(100, 16, 32, joined_layers=False) == 7 * 32
    assert handoff_s(1e9, 1e10, 1e-5, 7) == pytest.approx(0.1 + 7e-5)


@given(st.floats(0, 10), st.floats(0, 10), st.integers(1, 128))
def test_at_least_the_last_layer_is_waited_for_and_at_most_all(
    transfer: float, prefill: float, layers: int
) -> None:
    visible = visible_by_layer_s(transfer, prefill, layers)
    assert transfer / layers - 1e-12 <= visible <= transfer + 1e-12


def test_a_transfer_shorter_than_its_prefill_shows_only_its_last_layer() -> None:
    assert visible_by_layer_s(0.032, 0.75, 32) == pytest.approx(0.001)


def test_without_a_prefill_to_hide_behind_everything_shows() -> None:
    assert visible_by_layer_s(2.0, 0.0, 32) == 2.0


def test_chunks_hide_all_but_the_last_ones_transfer() -> None:
    assert visible_by_chunk_s(0.4, [1.0, 1.0], [512, 512]) == pytest.approx(0.2)
    assert visible_by_chunk_s(0.4, [2.0], [1024]) == pytest.approx(0.4)


def test_a_slow_link_is_still_busy_with_earlier_chunks() -> None:
    # 4 s of transfer, made in 2 s: the link is busy from the first chunk on.
    assert visible_by_chunk_s(4.0, [1.0, 1.0], [512, 512]) == pytest.approx(3.0)


@given(st.floats(0, 10), st.lists(st.floats(0.01, 2), min_size=1, max_size=8))
def test_more_chunks_never_show_more_of_the_transfer(transfer: float, parts: list[float]) -> None:
    whole = visible_by_chunk_s(transfer, [sum(parts)], [len(parts)])
    assert visible_by_chunk_s(transfer, parts, [1] * len(parts)) <= whole + 1e-9
