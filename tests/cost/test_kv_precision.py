"""When KV of fewer bits pays: R22 and its break-even."""

import pytest

from netgain.cost.known_models import known_shape
from netgain.cost.kv_bytes import kv_bytes_per_token
from netgain.cost.kv_precision import (
    R22_BF16,
    R22_FP8,
    LinearITL,
    break_even_context_tokens,
)
from netgain.cost.precision import kv_format


def test_fp8_kv_loses_latency_below_seven_thousand_tokens() -> None:
    tokens = break_even_context_tokens(R22_BF16, R22_FP8)
    assert tokens == pytest.approx(7_000)
    assert R22_FP8.itl_s(1_000) > R22_BF16.itl_s(1_000)
    assert R22_FP8.itl_s(10_000) < R22_BF16.itl_s(10_000)


def test_at_an_empty_context_fp8_kv_costs_an_eighth_of_a_millisecond_more() -> None:
    assert R22_FP8.itl_s(0) - R22_BF16.itl_s(0) == pytest.approx(0.14e-3)


def test_eight_contexts_of_21000_tokens_read_as_slowly_as_was_measured() -> None:
    """R22c: 13.8 ms predicted, 15.18 measured."""
    assert R22_BF16.itl_s(8 * 21_000) == pytest.approx(13.8e-3, rel=0.01)
    assert R22_BF16.itl_s(8 * 21_000) == pytest.approx(15.18e-3, rel=0.15)


def test_a_format_that_is_faster_at_once_breaks_even_at_nothing() -> None:
    assert break_even_context_tokens(LinearITL(2, 2), LinearITL(1, 1)) == 0
    assert break_even_context_tokens(LinearITL(1, 1), LinearITL(2, 2)) is None


def test_scales_are_counted() -> None:
    """Per head and token 4 bytes for K and 4 for V: 8 heads in 32 layers of Llama-3-8B."""
    llama = known_shape("Llama-3-8B")
    assert llama is not None
    assert kv_bytes_per_token(llama, kv_format("fp8")) == 65_536
    assert kv_bytes_per_token(llama, kv_format("fp8-scaled")) == 65_536 + 32 * 8 * 2 * 4
    assert kv_bytes_per_token(llama, kv_format("int4")) == 32_768 + 32 * 8 * 2 * 4
