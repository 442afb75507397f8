"""Bytes of keys and values: per token, per sequence, per rank.

Grouped attention: layers x 2 x kv_heads x head_dim x bytes; latent: layers x (rank + rope) x bytes;
a sliding window stops growing at the window; a state layer has the same size at any length. Under
tensor parallelism a rank stores max(1, kv_heads / tp) heads, and all of a latent cache.
"""

import math
from typing import Final

from netgain.cost.layout import ONE_DEVICE, Layout
from netgain.cost.model_shape import (
    Attention,
    GroupedAttention,
    LatentAttention,
    ModelShape,
    StateAttention,
)
from netgain.cost.precision import KVFormat, kv_format

BF16: Final = kv_format("bf16")


def layer_token_bytes(
    attention: Attention, kv: KVFormat = BF16, kv_heads: int | None = None
) -> float:
    """Bytes one token adds to one layer's cache; 0 for a state layer.

    `kv_heads` overrides how many heads are stored: a rank's share, or a whole group's.
    """
    if isinstance(attention, StateAttention):
        return 0.0
    if isinstance(attention, LatentAttention):
        return (attention.kv_rank + attention.rope_dim) * kv.bytes + kv.scale_bytes
    heads = attention.kv_heads if kv_heads is None else kv_heads
    elements = attention.head_dim + attention.value_dim
    return heads * (elements * kv.bytes + 2 * kv.scale_bytes)


def kv_bytes_per_token(shape: ModelShape, kv: KVFormat = BF16) -> int:
    """Bytes a token takes over all layers while no window is full. One copy of each head."""
    return _sum(shape, kv, past_windows=False)


def kv_marginal_bytes_per_token(shape: ModelShape, kv: KVFormat = BF16) -> int:
    """Bytes one more token takes once every window is full: layers of full attention only."""
    return _sum(shape, kv, past_windows=True)


def kv_bytes_per_token_on_rank(
    shape: ModelShape, layout: Layout, kv: KVFormat = BF16, *, past_windows: bool = False
) -> int:
    """Bytes a token takes on the fullest rank: its heads of its pipeline stage's layers."""
    return math.ceil(_on_rank(shape, layout, kv, past_windows))


def kv_bytes_per_token_stored(shape: ModelShape, layout: Layout, kv: KVFormat = BF16) -> int:
    """Bytes a token takes on all ranks of one replica together.

    Past its key-value heads tensor parallelism stores copies; of a latent cache it always does.
    """
    return math.ceil(
        sum(group.count * _layer_stored(group.attention, layout, kv) for group in shape.groups)
    )


def kv_copies(shape: ModelShape, layout: Layout) -> str | None:
    """Why a tensor-parallel group stores more than one copy of its cache; None where it does not.

    A latent cache has no heads to split: each rank needs all of it for its own query heads.
    """
    alone = kv_bytes_per_token_stored(shape, ONE_DEVICE)
    stored = kv_bytes_per_token_stored(shape, layout)
    if layout.tp == 1 or not alone or stored <= alone:
        return None
    if shape.is_latent:
        return (
            f"The latent cache is copied on each of the {layout.tp} tensor-parallel ranks, for it "
            f"has no heads to split: a group stores {stored:,} B per token instead of {alone:,}, "
            "and a device holds no more tokens than alone. Data-parallel attention "
            f"(--dp {layout.tp} --ep {layout.tp}) keeps one copy"
        )
    return (
        f"TP {layout.tp} is wider than {shape.kv_heads} KV heads: a group stores and moves "
        f"{stored / alone:.3g} times the KV bytes"
    )


def kv_bytes_per_sequence(
    shape: ModelShape,
    tokens: int,
    kv: KVFormat = BF16,
    *,
    block_tokens: int = 1,
    layout: Layout = ONE_DEVICE,
) -> int:
    """Bytes a sequence of `tokens` takes on the fullest rank (of one device: all of it).

    Lengths are rounded up to whole blocks, windows too. States of constant size are included.
    """
    total = 0.0
    for group in shape.groups:
        share = group.count * layout.layers_per_stage(shape.layers) / shape.layers
        attention = group.attention
        if isinstance(attention, StateAttention):
            total += share * state_bytes(attention) / layout.tp
        else:
            length = _kept_tokens(attention, tokens, block_tokens)
            total += share * length * _layer_on_rank(attention, layout, kv)
    return math.ceil(total)


def kv_bytes_per_sequence_stored(
    shape: ModelShape, tokens: int, layout: Layout, kv: KVFormat = BF16
) -> int:
    """Bytes a sequence of `tokens` takes on all ranks of one replica together, copies included.

    States of constant size are split, never copied.
    """
    total = 0.0
    for group in shape.groups:
        attention = group.attention
        if isinstance(attention, StateAttention):
            total += group.count * state_bytes(attention)
            continue
        length = _kept_tokens(attention, tokens, 1)
        total += group.count * length * _layer_stored(attention, layout, kv)
    return math.ceil(total)


def state_bytes(attention: StateAttention) -> float:
    """Bytes of one layer's state for one sequence: the recurrent state 32 bit, the rest 16 bit."""
    return 4.0 * attention.state_elements + 2.0 * attention.conv_elements


def _kept_tokens(attention: Attention, tokens: int, block_tokens: int) -> int:
    """Tokens a layer keeps of so many: whole blocks, and no more than its window."""
    rounded = math.ceil(tokens / block_tokens) * block_tokens
    window = attention.window if isinstance(attention, GroupedAttention) else None
    if window is None:
        return rounded
    return min(rounded, math.ceil(window / block_tokens) * block_tokens)


def _layer_stored(attention: Attention, layout: Layout, kv: KVFormat) -> float:
    if isinstance(attention, GroupedAttention):
        return layer_token_bytes(attention, kv, layout.kv_heads_stored(attention))
    return layer_token_bytes(attention, kv) * layout.tp


def _layer_on_rank(attention: Attention, layout: Layout, kv: KVFormat) -> float:
    heads = layout.kv_heads_per_rank(attention) if isinstance(attention, GroupedAttention) else None
    return layer_token_bytes(attention, kv, heads)


def _on_rank(shape: ModelShape, layout: Layout, kv: KVFormat, past_windows: bool) -> float:
    """Averaged over a stage's layers: stages are cut by count, each with the mix of the whole."""
    total = sum(
        group.count * _layer_on_rank(group.attention, layout, kv)
        for group in shape.groups
        if not (past_windows and _is_windowed(group.attention))
    )
    return total * layout.layers_per_stage(shape.layers) / shape.layers


def _sum(shape: ModelShape, kv: KVFormat, past_windows: bool) -> int:
    return math.ceil(_on_rank(shape, ONE_DEVICE, kv, past_windows))


def _is_windowed(attention: Attention) -> bool:
    return isinstance(attention, GroupedAttention) and attention.window is not None
