"""Collectives among n equal ranks: alpha-beta forms.

`hop_s` is the latency of one hop, `rank_bytes_per_s` what one rank sends per direction (effective,
not the sheet's), `size_bytes` the whole buffer of one rank: what an all-reduce sums, what an
all-gather leaves behind, what an all-to-all hands out. Sources: NVIDIA nccl-tests
doc/PERFORMANCE.md (bandwidth terms and busbw), NCCL (tree), measured NVLS/SHARP (in-switch).
"""

import math
from enum import StrEnum

from netgain.cost.bounds import at_least_zero, count, positive


class Operation(StrEnum):
    """What ranks do together."""

    ALL_REDUCE = "all-reduce"
    REDUCE_SCATTER = "reduce-scatter"
    ALL_GATHER = "all-gather"
    ALL_TO_ALL = "all-to-all"
    BROADCAST = "broadcast"
    SEND = "send"


class Algorithm(StrEnum):
    """How they do it."""

    RING = "ring"
    TREE = "tree"
    IN_SWITCH = "in-switch"
    DIRECT = "direct"
    """Every rank sends to every other at once: a full mesh's way."""
    HIERARCHICAL = "hierarchical"
    """Inside each machine, between machines on every rail at once, inside again."""


def ring_all_reduce_s(
    size_bytes: float, ranks: int, rank_bytes_per_s: float, hop_s: float
) -> float:
    """2 (n - 1) alpha + 2 (n - 1) / n S / B."""
    return 2 * ring_pass_s(size_bytes, ranks, rank_bytes_per_s, hop_s)


def ring_pass_s(size_bytes: float, ranks: int, rank_bytes_per_s: float, hop_s: float) -> float:
    """Reduce-scatter, all-gather or all-to-all: (n - 1) alpha + (n - 1) / n S / B."""
    _check(size_bytes, ranks, rank_bytes_per_s, hop_s)
    return (ranks - 1) * hop_s + (ranks - 1) / ranks * size_bytes / rank_bytes_per_s


def tree_all_reduce_s(
    size_bytes: float, ranks: int, rank_bytes_per_s: float, hop_s: float
) -> float:
    """2 log2(n) alpha + 2 S / B, pipelined; 0 for one rank."""
    _check(size_bytes, ranks, rank_bytes_per_s, hop_s)
    if ranks == 1:
        return 0.0
    return 2 * math.log2(ranks) * hop_s + 2 * size_bytes / rank_bytes_per_s


def in_switch_all_reduce_s(
    size_bytes: float, ranks: int, rank_bytes_per_s: float, hop_s: float
) -> float:
    """2 alpha + S / B: each rank sends and receives the buffer once, the switch adds."""
    _check(size_bytes, ranks, rank_bytes_per_s, hop_s)
    return 0.0 if ranks == 1 else 2 * hop_s + size_bytes / rank_bytes_per_s


def direct_all_reduce_s(
    size_bytes: float, ranks: int, rank_bytes_per_s: float, hop_s: float
) -> float:
    """2 alpha + 2 (n - 1) / n S / B: scatter to all peers at once, then gather from all."""
    _check(size_bytes, ranks, rank_bytes_per_s, hop_s)
    if ranks == 1:
        return 0.0
    return 2 * hop_s + 2 * (ranks - 1) / ranks * size_bytes / rank_bytes_per_s


def broadcast_s(size_bytes: float, ranks: int, rank_bytes_per_s: float, hop_s: float) -> float:
    """(n - 1) alpha + S / B, pipelined along a chain; 0 for one rank."""
    _check(size_bytes, ranks, rank_bytes_per_s, hop_s)
    return 0.0 if ranks == 1 else (ranks - 1) * hop_s + size_bytes / rank_bytes_per_s


def send_s(size_bytes: float, rank_bytes_per_s: float, hop_s: float, hops: int = 1) -> float:
    """Point to point: alpha per hop + S / B."""
    _check(size_bytes, 1, rank_bytes_per_s, hop_s)
    return hops * hop_s + size_bytes / rank_bytes_per_s


def busbw_factor(operation: Operation, ranks: int) -> float:
    """Bus bandwidth over algorithm bandwidth (size / time). Source: nccl-tests."""
    count("ranks", ranks)
    if operation is Operation.ALL_REDUCE:
        return 2 * (ranks - 1) / ranks
    if operation in (Operation.BROADCAST, Operation.SEND):
        return 1.0
    return (ranks - 1) / ranks


def busbw_bytes_per_s(operation: Operation, ranks: int, size_bytes: float, seconds: float) -> float:
    """What each link must have carried, whatever the number of ranks."""
    return busbw_factor(operation, ranks) * size_bytes / positive("seconds", seconds)


def _check(size_bytes: float, ranks: int, rank_bytes_per_s: float, hop_s: float) -> None:
    at_least_zero("size_bytes", size_bytes)
    count("ranks", ranks)
    positive("rank_bytes_per_s", rank_bytes_per_s)
    at_least_zero("hop_s", hop_s)
