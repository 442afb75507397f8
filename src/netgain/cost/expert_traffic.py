"""Expert parallelism: which copies of a token cross, and how unequal the ranks' loads are.

Sources: DeepEP, DeepSeek-V3 (node-limited routing).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from netgain.cost.bounds import at_least_zero, count


@dataclass(frozen=True, slots=True)
class RoutedToken:
    """A token, the rank it lives on and the experts its router chose."""

    name: str
    home_rank: int
    experts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Copy:
    """One copy of a token that crosses to another rank (once, however many experts it meets)."""

    token: str
    source: int
    target: int


def crossing_copies(
    tokens: Sequence[RoutedToken], rank_of_expert: Mapping[int, int]
) -> tuple[Copy, ...]:
    """The copies that dispatch sends: one per token and other rank that holds a chosen expert."""
    return tuple(
        Copy(token.name, token.home_rank, rank)
        for token in tokens
        for rank in sorted({rank_of_expert[expert] for expert in token.experts})
        if rank != token.home_rank
    )


def contiguous_placement(experts: int, ranks: int) -> dict[int, int]:
    """Experts in order, equally many on each rank; the first ranks take one more if uneven."""
    count("experts", experts)
    count("ranks", ranks)
    return {expert: expert * ranks // experts for expert in range(experts)}


def expected_nodes(top_k: int, nodes: int, node_limit: int | None = None) -> float:
    """Nodes a token's copies reach, routing uniform: N (1 - (1 - 1/N)^k), at most the limit."""
    count("top_k", top_k)
    count("nodes", nodes)
    reached = nodes * (1.0 - (1.0 - 1.0 / nodes) ** top_k)
    return reached if node_limit is None else min(reached, count("node_limit", node_limit))


@dataclass(frozen=True, slots=True)
class DispatchBytes:
    """What one rank sends in one layer's dispatch (or gets back in its combine).

    `inside` goes to ranks of its own machine, `between` to other machines, both in bytes.
    """

    inside: float
    between: float


def dispatch_bytes(
    tokens: int,
    top_k: int,
    hidden: int,
    bytes_per_value: float,
    ranks: int,
    ranks_per_node: int,
    node_limit: int | None = None,
    once_per_node: bool = False,
) -> DispatchBytes:
    """Bytes per rank of tokens x top_k x hidden x bytes, split by where they go; routing uniform.

    Without `once_per_node` each copy travels alone (low-latency kernels): shares (n - 1) / n by
    rank. With it a token crosses once to each other node it needs, x nodes reached / top_k between
    nodes, and is handed on there over the inner links. Nodes reached: `expected_nodes`, which is
    the min(top_k, node_limit) of the usual form where there are many nodes.
    """
    count("tokens", tokens, least=0)
    count("ranks", ranks)
    count("ranks_per_node", ranks_per_node)
    at_least_zero("bytes_per_value", bytes_per_value)
    one = hidden * bytes_per_value
    copies = tokens * count("top_k", top_k)
    near = min(ranks_per_node, ranks)
    far_share = (ranks - near) / ranks
    inside = copies * one * (near - 1) / ranks
    if not once_per_node or far_share == 0:
        return DispatchBytes(inside, copies * one * far_share)
    nodes = -(-ranks // near)
    crossing = tokens * expected_nodes(top_k, nodes, node_limit) * one * far_share
    # What lands on its own rank of the other node need not be handed on.
    handed_on = copies * one * far_share * (near - 1) / near
    return DispatchBytes(inside + handed_on, crossing)


def slowest_rank(ranks: int, experts: int, met: float) -> float:
    """Experts that the fullest of `ranks` reads, over the mean; `met` is the chance of each expert.

    Each rank meets a binomial number of its own experts: m + z sd, z the expected largest of so
    many normal values (Blom). 1 for one rank, and where every expert is met.
    """
    count("ranks", ranks)
    if ranks == 1 or not met:
        return 1.0
    each = experts / ranks
    deviation = math.sqrt(each * met * max(0.0, 1.0 - met))
    largest = NormalDist().inv_cdf((ranks - 0.375) / (ranks + 0.25))
    return min(each, each * met + largest * deviation) / (each * met)
