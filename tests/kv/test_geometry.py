"""Bytes of KV, against the worked values of published models."""

import pytest

from netgain.kv.geometry import KVDType, KVGroup


def group(
    layers: int,
    kv_heads: int,
    head_dim: int,
    block_tokens: int = 16,
    dtype: KVDType = KVDType.FP32,
) -> KVGroup:
    return KVGroup("full", tuple(range(layers)), kv_heads, head_dim, block_tokens, dtype)


@pytest.mark.parametrize(
    ("layers", "kv_heads", "head_dim", "half_precision_bytes"),
    [
        pytest.param(32, 32, 128, 524_288, id="Llama-2-7B"),
        pytest.param(32, 8, 128, 131_072, id="Llama-3-8B"),
        pytest.param(80, 8, 128, 327_680, id="Llama-3-70B"),
        pytest.param(36, 8, 128, 147_456, id="Qwen3-8B"),
        pytest.param(48, 4, 128, 98_304, id="Qwen3-30B-A3B"),
        pytest.param(30, 3, 64, 23_040, id="SmolLM2-135M"),
    ],
)
def test_a_token_takes_keys_and_values_of_every_layer_and_kv_head(
    layers: int, kv_heads: int, head_dim: int, half_precision_bytes: int
) -> None:
    for dtype in (KVDType.FP16, KVDType.BF16):
        found = group(layers, kv_heads, head_dim, dtype=dtype)
        assert found.token_bytes == half_precision_bytes
    assert group(layers, kv_heads, head_dim).token_bytes == half_precision_bytes * 2


@pytest.mark.parametrize(
    ("batch", "length", "gib"), [(1, 4096, 2), (4, 4096, 8), (16, 4096, 32), (16, 8192, 64)]
)
def test_a_pool_for_a_batch_of_llama_2_7b_has_the_size_of_its_table(
    batch: int, length: int, gib: int
) -> None:
    llama = group(32, 32, 128)
    blocks = batch * -(-length // llama.block_tokens)
    assert blocks * llama.record_bytes == 2 * gib << 30


def test_a_record_is_its_shape() -> None:
    record = group(30, 3, 64, block_tokens=8)
    elements = 1
    for size in record.record_shape:
        elements *= size
    assert record.record_shape == (30, 2, 3, 8, 64)
    assert record.record_bytes == elements * record.dtype.element_bytes


def test_eight_bit_keys_and_values_take_a_scale_per_token_and_head_besides() -> None:
    found = group(30, 3, 64, block_tokens=8, dtype=KVDType.INT8)
    assert found.record_bytes == 8 * 30 * 2 * 3 * (64 + 4)
