"""Moving KV from one place to another, and the part of it that a request waits for.

Sources: T = alpha x descriptors + S / B (NIXL, Mooncake); layer-wise overlap as in Splitwise.
"""

from collections.abc import Sequence

from netgain.cost.bounds import at_least_zero, count, positive


def handoff_s(
    kv_bytes: float, bytes_per_s: float, descriptor_s: float = 0.0, descriptors: int = 1
) -> float:
    """alpha x descriptors + S / B. Few large records beat many small ones."""
    at_least_zero("kv_bytes", kv_bytes)
    at_least_zero("descriptor_s", descriptor_s)
    return count("descriptors", descriptors, least=0) * descriptor_s + kv_bytes / positive(
        "bytes_per_s", bytes_per_s
    )


def descriptors(tokens: int, block_tokens: int, layers: int, joined_layers: bool = True) -> int:
    """Records that a request's KV moves in: blocks, times layers unless a block joins them."""
    blocks = -(-count("tokens", tokens, least=0) // count("block_tokens", block_tokens))
    return blocks if joined_layers else blocks * count("layers", layers)


def visible_by_layer_s(transfer_s: float, prefill_s: float, layers: int) -> float:
    """What is left to wait for when each layer's KV leaves as soon as it is made.

    max(0, T - T_prefill (L - 1) / L) where that is more than the last layer's T / L, which has
    nothing to hide behind.
    """
    count("layers", layers)
    hidden_behind = at_least_zero("prefill_s", prefill_s) * (layers - 1) / layers
    return max(at_least_zero("transfer_s", transfer_s) / layers, transfer_s - hidden_behind)


def visible_by_chunk_s(
    transfer_s: float, chunk_s: Sequence[float], chunk_tokens: Sequence[int]
) -> float:
    """What is left to wait for when each chunk's KV leaves once the chunk is done.

    A chunk's transfer starts when it is made and the link is free; the last one hides behind
    nothing. `transfer_s` is for all tokens together.
    """
    whole = positive("tokens", sum(chunk_tokens))
    made = free = 0.0
    for seconds, tokens in zip(chunk_s, chunk_tokens, strict=True):
        made += seconds
        free = max(free, made) + transfer_s * tokens / whole
    return free - made
