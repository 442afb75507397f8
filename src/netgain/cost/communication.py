"""What a collective takes on a topology: its slowest edge, its hops, and the way that is fastest.

Edges carry every flow that crosses them; a ring is as fast as its most loaded edge. Each wire
reaches only a share of its peak (labelled with its source in `hardware/data/wires.toml`).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from netgain.cost.bounds import at_least_zero, count
from netgain.cost.collectives import (
    Algorithm,
    Operation,
    broadcast_s,
    busbw_bytes_per_s,
    direct_all_reduce_s,
    in_switch_all_reduce_s,
    ring_all_reduce_s,
    ring_pass_s,
    send_s,
    tree_all_reduce_s,
)
from netgain.cost.expert_traffic import dispatch_bytes
from netgain.errors import ConfigurationError
from netgain.hardware.topology import Edge, Flow, NodeKind, Topology

LAUNCH_S: Final = 35e-6
"""Before the first byte moves: launch and synchronisation. Source: Vidur's 1 MiB all-reduces on
A100 (0.047 to 0.064 ms) less what the bytes and hops take; a captured graph has less."""
EXPERT_LAUNCH_S: Final = 20e-6
"""The same for a low-latency expert kernel. Source: DeepEP, EP16 to EP256."""


@dataclass(frozen=True, slots=True)
class CollectiveCost:
    """One way of doing one operation. Seconds and bytes/s.

    `latency_s` is what stays for no bytes at all; `rank_bytes_per_s` what each rank moves one way
    while bytes flow; `slowest` the edge that sets it; `checked` whether its shares were measured.
    """

    operation: Operation
    algorithm: Algorithm
    ranks: int
    size_bytes: float
    seconds: float
    latency_s: float
    rank_bytes_per_s: float
    slowest: str
    checked: bool
    source: str

    @property
    def busbw_bytes_per_s(self) -> float:
        """Bus bandwidth as nccl-tests defines it."""
        return busbw_bytes_per_s(self.operation, self.ranks, self.size_bytes, self.seconds)

    @property
    def arithmetic(self) -> str:
        """The formula with its numbers."""
        moved = (self.seconds - self.latency_s) * self.rank_bytes_per_s
        return (
            f"{self.latency_s * 1e6:.4g} us + {moved:.4g} B / "
            f"{self.rank_bytes_per_s / 1e9:.4g} GB/s ({self.algorithm}, {self.slowest})"
        )


def collective(
    topology: Topology,
    group: Sequence[str],
    operation: Operation,
    size_bytes: float,
    launch_s: float = LAUNCH_S,
) -> CollectiveCost:
    """The fastest way the group has. Raises `ConfigurationError` for a group of strangers."""
    return min(ways(topology, group, operation, size_bytes, launch_s), key=lambda c: c.seconds)


def ways(
    topology: Topology,
    group: Sequence[str],
    operation: Operation,
    size_bytes: float,
    launch_s: float = LAUNCH_S,
) -> tuple[CollectiveCost, ...]:
    """Every way of doing it that this topology has, each with its cost."""
    at_least_zero("size_bytes", size_bytes)
    at_least_zero("launch_s", launch_s)
    if len(set(group)) != len(group) or not group:
        raise ConfigurationError("a group needs devices, each of them once")
    if len(group) == 1:
        return (_nothing(operation, size_bytes),)
    members = set(group)
    ordered = [device for device in topology.devices if device in members]
    if len(ordered) != len(group):
        strangers = sorted(set(group) - set(topology.devices))
        raise ConfigurationError(f"{topology.name} has no device {strangers[0]!r}")
    if operation is Operation.SEND:
        return (send(topology, group[0], group[1], size_bytes, launch_s),)
    found = list(_plain_ways(topology, ordered, operation, size_bytes))
    if operation in (Operation.ALL_REDUCE, Operation.REDUCE_SCATTER, Operation.ALL_GATHER):
        found += _hierarchical(topology, ordered, operation, size_bytes)
    return tuple(
        replace(c, seconds=c.seconds + launch_s, latency_s=c.latency_s + launch_s) for c in found
    )


def send(
    topology: Topology,
    source: str,
    target: str,
    size_bytes: float,
    launch_s: float = LAUNCH_S,
) -> CollectiveCost:
    """One pair's transfer: the widest path, at the share that a single flow reaches."""
    path = topology.path(source, target)
    if not path.edges:
        return _nothing(Operation.SEND, size_bytes)
    slow = min(path.edges, key=lambda edge: edge.wire.bytes_per_s * edge.wire.send)
    rate = slow.wire.bytes_per_s * slow.wire.send
    latency = launch_s + path.latency_s
    return CollectiveCost(
        Operation.SEND,
        Algorithm.DIRECT,
        2,
        size_bytes,
        send_s(size_bytes, rate, latency),
        latency,
        rate,
        str(slow),
        all(edge.wire.checked for edge in path.edges),
        slow.wire.source,
    )


@dataclass(frozen=True, slots=True)
class TensorStep:
    """What tensor parallelism adds to a step: all-reduces in every layer, a gather of logits."""

    all_reduce: CollectiveCost
    all_reduces: int
    gather: CollectiveCost | None

    @property
    def seconds(self) -> float:
        """All of it, nothing overlapped."""
        gathered = self.gather.seconds if self.gather else 0.0
        return self.all_reduces * self.all_reduce.seconds + gathered


def tensor_step(
    topology: Topology,
    group: Sequence[str],
    tokens: int,
    hidden: int,
    layers: int,
    bytes_per_value: float = 2.0,
    logit_rows: int = 0,
    vocab: int = 0,
    launch_s: float = LAUNCH_S,
) -> TensorStep:
    """Two all-reduces of tokens x hidden per layer, and a gather of logits. Source: Megatron."""
    count("tokens", tokens)
    count("layers", layers)
    size = tokens * hidden * bytes_per_value
    reduce = collective(topology, group, Operation.ALL_REDUCE, size, launch_s)
    gather = None
    if logit_rows and vocab:
        logits = logit_rows * vocab * bytes_per_value
        gather = collective(topology, group, Operation.ALL_GATHER, logits, launch_s)
    return TensorStep(reduce, 0 if len(group) == 1 else 2 * layers, gather)


@dataclass(frozen=True, slots=True)
class ExpertExchange:
    """One layer's dispatch and combine among expert ranks. Seconds, bytes per rank."""

    dispatch_s: float
    combine_s: float
    dispatch_bytes: float
    combine_bytes: float
    between_bytes: float

    @property
    def seconds(self) -> float:
        """Both ways, nothing overlapped."""
        return self.dispatch_s + self.combine_s


def expert_exchange(
    topology: Topology,
    group: Sequence[str],
    tokens: int,
    top_k: int,
    hidden: int,
    dispatch_value_bytes: float = 1.0,
    combine_value_bytes: float = 2.0,
    node_limit: int | None = None,
    once_per_node: bool = False,
    launch_s: float = EXPERT_LAUNCH_S,
) -> ExpertExchange:
    """Dispatch and combine of `tokens` per rank, routing uniform.

    Copies inside a machine and between machines move at once; the slower of the two counts. One
    rank alone exchanges nothing.
    """
    if len(group) == 1:
        return ExpertExchange(0.0, 0.0, 0.0, 0.0, 0.0)
    machines: dict[int | None, list[str]] = {}
    for device in group:
        machines.setdefault(topology.nodes[device].machine, []).append(device)
    near = max(len(members) for members in machines.values())

    def one_way(value_bytes: float) -> tuple[float, float, float]:
        sent = dispatch_bytes(
            tokens, top_k, hidden, value_bytes, len(group), near, node_limit, once_per_node
        )
        seconds = launch_s + max(
            _spread_s(topology, group, sent.inside, near=True),
            _spread_s(topology, group, sent.between, near=False),
        )
        return seconds, sent.inside + sent.between, sent.between

    out_s, out_bytes, between = one_way(dispatch_value_bytes)
    back_s, back_bytes, _ = one_way(combine_value_bytes)
    return ExpertExchange(out_s, back_s, out_bytes, back_bytes, between)


def _plain_ways(
    topology: Topology, group: Sequence[str], operation: Operation, size: float
) -> Iterable[CollectiveCost]:
    """Ring, tree, in-switch and direct: those that make sense for the operation and the graph."""
    ranks = len(group)
    ring, hop, edge = _ring(topology, tuple(group))
    wide, wide_hop, wide_edge = _all_pairs(topology, tuple(group))
    switch = _adding_switch(topology, group)
    meshed = _meshed(topology, tuple(group))

    def cost(
        algorithm: Algorithm, seconds: float, latency: float, rate: float, slow: Edge
    ) -> CollectiveCost:
        return CollectiveCost(
            operation,
            algorithm,
            ranks,
            size,
            seconds,
            latency,
            rate,
            str(slow),
            slow.wire.checked,
            slow.wire.source,
        )

    if operation is Operation.ALL_REDUCE:
        forms = [
            (Algorithm.RING, ring_all_reduce_s, ring, hop, edge),
            (Algorithm.TREE, tree_all_reduce_s, ring, hop, edge),
        ]
        if meshed:
            forms.append((Algorithm.DIRECT, direct_all_reduce_s, wide, wide_hop, wide_edge))
        for algorithm, form, rate, each, slow in forms:
            yield cost(
                algorithm, form(size, ranks, rate, each), form(0, ranks, rate, each), rate, slow
            )
        if switch is not None:
            rate = switch.wire.bytes_per_s * (switch.wire.in_switch or 0.0)
            each = 2 * switch.wire.hop_s
            yield cost(
                Algorithm.IN_SWITCH,
                in_switch_all_reduce_s(size, ranks, rate, each),
                in_switch_all_reduce_s(0, ranks, rate, each),
                rate,
                switch,
            )
        if topology.torus and ranks == len(topology.devices):
            yield _torus_all_reduce(topology, group, size, edge)
    elif operation is Operation.BROADCAST:
        yield cost(
            Algorithm.RING, broadcast_s(size, ranks, ring, hop), (ranks - 1) * hop, ring, edge
        )
    else:
        if operation is not Operation.ALL_TO_ALL:
            yield cost(
                Algorithm.RING, ring_pass_s(size, ranks, ring, hop), (ranks - 1) * hop, ring, edge
            )
        if meshed or operation is Operation.ALL_TO_ALL:
            seconds = wide_hop + (ranks - 1) / ranks * size / wide
            yield cost(Algorithm.DIRECT, seconds, wide_hop, wide, wide_edge)


@lru_cache(maxsize=64)
def _ring(topology: Topology, group: tuple[str, ...]) -> tuple[float, float, Edge]:
    """Bytes/s of each rank around the ring, latency of its longest hop, its slowest edge."""
    pairs = [(group[i], group[(i + 1) % len(group)]) for i in range(len(group))]
    loads = topology.loads(Flow(a, b, 1.0) for a, b in pairs)
    slow = min(loads, key=lambda e: e.wire.bytes_per_s * e.wire.collective / loads[e])
    rate = slow.wire.bytes_per_s * slow.wire.collective / loads[slow]
    return rate, max(topology.path(a, b).latency_s for a, b in pairs), slow


@lru_cache(maxsize=64)
def _all_pairs(topology: Topology, group: tuple[str, ...]) -> tuple[float, float, Edge]:
    """Bytes/s of each rank when all send to all, latency of the longest path, slowest edge."""
    loads, longest_s = topology.loads_of_all(group, group)
    slow = min(loads, key=lambda e: e.wire.bytes_per_s * e.wire.collective / loads[e])
    rate = (len(group) - 1) * slow.wire.bytes_per_s * slow.wire.collective / loads[slow]
    return rate, longest_s, slow


@lru_cache(maxsize=64)
def _meshed(topology: Topology, group: tuple[str, ...]) -> bool:
    """Whether every pair has a link of its own."""
    return all(len(topology.path(a, b).edges) == 1 for a in group for b in group if a != b)


def _adding_switch(topology: Topology, group: Sequence[str]) -> Edge | None:
    """An edge to the one switch that all of the group hang on, if that switch can add."""
    shared: set[str] | None = None
    adding = {}
    for device in group:
        mine = {
            edge.target: edge
            for edge in topology.out_of(device)
            if edge.wire.in_switch and topology.nodes[edge.target].kind is NodeKind.SWITCH
        }
        adding.update(mine)
        shared = set(mine) if shared is None else shared & set(mine)
    return adding[min(shared)] if shared else None


def _torus_all_reduce(
    topology: Topology, group: Sequence[str], size: float, edge: Edge
) -> CollectiveCost:
    """All dimensions and both directions at once: every link of a chip carries its share."""
    rate = min(
        sum(out.wire.bytes_per_s * out.wire.collective for out in topology.out_of(device))
        for device in group
    )
    hops = 2 * sum(dimension // 2 for dimension in topology.torus)
    latency = hops * edge.wire.hop_s
    ranks = len(group)
    seconds = latency + 2 * (ranks - 1) / ranks * size / rate
    return CollectiveCost(
        Operation.ALL_REDUCE,
        Algorithm.HIERARCHICAL,
        ranks,
        size,
        seconds,
        latency,
        rate,
        str(edge),
        edge.wire.checked,
        edge.wire.source,
    )


def _hierarchical(
    topology: Topology, group: Sequence[str], operation: Operation, size: float
) -> Iterable[CollectiveCost]:
    """Reduce-scatter inside, ring between machines on every rail at once, all-gather inside."""
    machines: dict[int | None, list[str]] = {}
    for device in group:
        machines.setdefault(topology.nodes[device].machine, []).append(device)
    boxes = list(machines.values())
    near, far = len(boxes[0]), len(boxes)
    if far < 2 or near < 2 or any(len(box) != near for box in boxes):
        return
    inner = min(
        _plain_ways(topology, boxes[0], Operation.ALL_GATHER, size), key=lambda c: c.seconds
    )
    flows = [
        Flow(boxes[m][index], boxes[(m + 1) % far][index], 1.0)
        for index in range(near)
        for m in range(far)
    ]
    loads = topology.loads(flows)
    slow = min(loads, key=lambda e: e.wire.bytes_per_s * e.wire.collective / loads[e])
    rate = slow.wire.bytes_per_s * slow.wire.collective / loads[slow]
    hop = max(topology.path(flow.source, flow.target).latency_s for flow in flows)
    passes = 2 if operation is Operation.ALL_REDUCE else 1
    outer_latency = passes * (far - 1) * hop
    outer = outer_latency + passes * (far - 1) / far * (size / near) / rate
    latency = passes * inner.latency_s + outer_latency
    seconds = passes * inner.seconds + outer
    yield CollectiveCost(
        operation,
        Algorithm.HIERARCHICAL,
        len(group),
        size,
        seconds,
        latency,
        busbw_rate(operation, len(group), size, seconds - latency),
        str(slow if outer > passes * inner.seconds else inner.slowest),
        slow.wire.checked and inner.checked,
        slow.wire.source,
    )


def busbw_rate(operation: Operation, ranks: int, size: float, moving_s: float) -> float:
    """Bytes/s one way per rank while bytes flow; infinite for no bytes."""
    return busbw_bytes_per_s(operation, ranks, size, moving_s) if moving_s > 0 else math.inf


def _spread_s(topology: Topology, group: Sequence[str], size: float, near: bool) -> float:
    """Seconds in which each rank sends `size` in equal parts to ranks of (other) machines."""
    if size <= 0:
        return 0.0

    def inside(a: str, b: str) -> bool:
        return topology.nodes[a].machine == topology.nodes[b].machine

    flows = []
    for source in group:
        targets = [t for t in group if t != source and inside(source, t) is near]
        if not near:  # Over its own rail, handed on there: as expert kernels do.
            targets = _same_rail(topology, group, source)
        flows += [Flow(source, target, size / len(targets)) for target in targets]
    loads = topology.loads(flows)
    return max(load / (e.wire.bytes_per_s * e.wire.collective) for e, load in loads.items())


def _same_rail(topology: Topology, group: Sequence[str], source: str) -> list[str]:
    """The devices of other machines that stand where `source` stands in its own."""
    place = topology.machine_devices(source).index(source)
    found = []
    for device in group:
        others = topology.machine_devices(device)
        if (
            others.index(device) == place
            and topology.nodes[device].machine != topology.nodes[source].machine
        ):
            found.append(device)
    return found or [
        d for d in group if topology.nodes[d].machine != topology.nodes[source].machine
    ]


def _nothing(operation: Operation, size: float) -> CollectiveCost:
    return CollectiveCost(
        operation, Algorithm.DIRECT, 1, size, 0.0, 0.0, math.inf, "one device", True, ""
    )
