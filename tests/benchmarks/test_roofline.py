"""The arithmetic of bounds, on models small enough to count by hand."""

import numpy as np
import pytest
from benchmarks.cpu import ROWS, Row, bound_tok_s, decode_row
from benchmarks.roofline import CountedWeight, ModelWork, bound, pairs
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from netgain.kv.geometry import KVDType
from netgain.ops.cpu.ceilings import CeilingMeter, Ceilings
from netgain.ops.interface import Activation, AttentionSpec, StepOps, Value
from netgain.ops.selection import native_is_there

GAIN = np.ones(8, np.float32)
QKV, OUT, GATE_UP, HEAD = (
    CountedWeight((16, 8), 100, 1.5),
    CountedWeight((8, 8), 50, 2.0),
    CountedWeight((32, 8), 200, 1.5),
    CountedWeight((10, 8), 320, 0.0),
)


class OneLayer:
    """Embedding, attention of two query heads over one KV head of four, a gated layer, a head."""

    def __init__(self, window: int | None = None) -> None:
        self._spec = AttentionSpec(0, 0, heads=2, kv_heads=1, head_dim=4, window=window)

    @property
    def inverse_frequencies(self) -> NDArray[np.float32]:
        return np.ones(2, np.float32)

    def forward(self, ops: StepOps[Value]) -> Value:
        x = ops.embedding(HEAD)
        attended = ops.attention(ops.linear(ops.rms_norm(x, GAIN, 1e-5), QKV), self._spec)
        x, attended = ops.logit_rows(x), ops.logit_rows(attended)
        x = ops.linear(attended, OUT, x)
        ops.gated(x, GATE_UP, Activation.SILU)
        return ops.linear(x, HEAD)


def work(window: int | None = None, kv: KVDType = KVDType.FP16) -> ModelWork:
    return ModelWork(OneLayer(window), kv)


def ceilings(read: float = 1.0, floats: float = 1.0, products: float = 1.0) -> Ceilings:
    return Ceilings("plain", 1, read, floats, products)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(1, 50))
def test_pairs_are_counted_as_one_by_one(before: int, count: int, window: int) -> None:
    seen = [min(before + i + 1, window) for i in range(count)]
    assert pairs(before, count, window) == sum(seen)


def test_a_quantised_weight_costs_its_byte_products_per_row_and_a_plain_one_a_float() -> None:
    step = work().step([(0, 5)], 1)
    attention = 2 * 2 * 4 * (1 + 2 + 3 + 4 + 5)
    assert step.products == 1.5 * 5 * 16 * 8 + 2 * 1 * 8 * 8 + 1.5 * 1 * 32 * 8
    assert step.floats == 1 * 10 * 8 + attention


def test_attention_on_a_matrix_unit_costs_two_byte_products_for_each_float_one() -> None:
    vectors, tiles = (ModelWork(OneLayer(None), KVDType.FP16, tiled=on) for on in (False, True))
    one, other = vectors.step([(9, 5)], 1), tiles.step([(9, 5)], 1)
    assert other.products - one.products == 2 * (one.floats - other.floats)
    assert other.floats == 1 * 10 * 8


def test_weights_are_read_once_however_many_rows_share_them() -> None:
    one, many = work().step([(0, 1)], 1), work().step([(0, 1)] * 7, 7)
    assert one.read_bytes == many.read_bytes == 100 + 50 + 200 + 320


def test_keys_and_values_of_earlier_steps_are_read_with_their_scales() -> None:
    without = work(kv=KVDType.INT8).step([(0, 1)], 1).read_bytes
    step = work(kv=KVDType.INT8).step([(10, 1), (20, 1)], 2)
    assert step.read_bytes - without == 2 * (4 + 4) * (10 + 20)


def test_a_window_limits_what_is_read_and_multiplied() -> None:
    near, far = work(window=8).step([(100, 1)], 1), work(window=8).step([(1000, 1)], 1)
    assert near == far
    assert near.read_bytes == work().step([(7, 1)], 1).read_bytes


def test_a_step_without_logits_does_not_read_the_head() -> None:
    assert work().step([(0, 3)], 0).read_bytes == 100


def test_reading_overlaps_multiplying_but_the_kinds_of_multiply_adds_do_not() -> None:
    step = work().step([(0, 1)], 1)
    least = bound(step, ceilings(read=1e9, floats=2.0, products=4.0))
    assert least.compute_s == step.floats / 2 + step.products / 4
    assert least.seconds == least.compute_s
    assert bound(step, ceilings(read=1e-9)).seconds == pytest.approx(step.read_bytes * 1e9)


def test_a_decode_row_is_bound_by_its_steps_with_their_growing_context() -> None:
    row = decode_row(2, 10, 4)
    by_hand = [work().step([(before, 1)] * 2, 2).read_bytes for before in (10, 11, 12)]
    speed = bound_tok_s(row, work(), ceilings(floats=1e12, products=1e12))
    assert speed == pytest.approx(2 * 3 / sum(by_hand))


def test_a_prefill_row_is_bound_by_one_step() -> None:
    row = Row("prefill", 1, 6, 1)
    step = work().step([(0, 6)], 1)
    speed = bound_tok_s(row, work(), ceilings(read=1e12))
    assert speed == pytest.approx(6 / (step.floats + step.products))


def test_no_two_rounds_share_a_prompt_unless_it_is_to_be_cached() -> None:
    for row in ROWS:
        assert (row.prompts(0) == row.prompts(1)) is row.cached
        assert len({tuple(prompt) for prompt in row.prompts(0)}) == row.batch


def test_the_better_of_two_ceilings_keeps_each_rate() -> None:
    best = ceilings(3, 1, 5).best(ceilings(2, 4, 1))
    assert (best.read_bytes_s, best.float_s, best.product_s) == (3, 4, 5)


@pytest.mark.skipif(not native_is_there(), reason="the native library is not built")
def test_ceilings_are_within_what_a_core_can_do() -> None:
    meter = CeilingMeter(1, read_bytes=1 << 22)
    found = meter.measure(tries=1)
    meter.close()
    # A core does between 1e8 and 1e14 of anything a second.
    for rate in (found.read_bytes_s, found.float_s, found.product_s):
        assert 1e8 < rate < 1e14
