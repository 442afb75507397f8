"""Which devices are joined by what: a graph with one edge per direction.

A pair's bandwidth is that of the path its data takes, an aggregate that of all edges out of a
device together; the two differ wherever there is no switch. Devices do not pass on what is meant
for others, except in a torus.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from netgain.errors import ConfigurationError
from netgain.hardware.wire import Wire

MOST_DEVICES: Final = 1024
"""Of one graph: its pairs are looked at one by one."""


class NodeKind(StrEnum):
    """What stands at a node of the graph."""

    DEVICE = "device"
    SWITCH = "switch"
    HOST = "host"
    NIC = "nic"


@dataclass(frozen=True, slots=True)
class Node:
    """`machine` is its box, None for what joins boxes. `forwards`: passes on others' data."""

    name: str
    kind: NodeKind
    machine: int | None = 0
    forwards: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Edge:
    """One direction of a link between two nodes. Equal only to itself: two may run side by side."""

    source: str
    target: str
    wire: Wire

    def __str__(self) -> str:
        return f"{self.source} > {self.target} ({self.wire.name})"


@dataclass(frozen=True, slots=True)
class Path:
    """The edges that data crosses from one device to another."""

    edges: tuple[Edge, ...]

    @property
    def bytes_per_s(self) -> float:
        """Peak of the slowest edge, one direction."""
        return min(edge.wire.bytes_per_s for edge in self.edges)

    @property
    def slowest(self) -> Edge:
        """The edge that sets the pace."""
        return min(self.edges, key=lambda edge: edge.wire.bytes_per_s)

    @property
    def latency_s(self) -> float:
        """Sum over edges."""
        return sum(edge.wire.hop_s for edge in self.edges)


@dataclass(frozen=True, slots=True)
class Flow:
    """Bytes on their way from one device to another."""

    source: str
    target: str
    size_bytes: float


@dataclass(slots=True)
class _Reach:
    """How one device reaches the others: the rate of each, and the tree its path lies in.

    A tree holds the edge by which each node was reached, nearer nodes before farther ones.
    """

    rates: dict[str, float] = field(default_factory=dict)
    trees: list[tuple[dict[str, Edge], list[str]]] = field(default_factory=list)
    """(tree, the devices whose paths lie in it)."""


class Topology:
    """Devices, what lies between them, and the paths their data takes. Immutable once built."""

    def __init__(
        self,
        name: str,
        nodes: Sequence[Node],
        edges: Sequence[Edge],
        torus: tuple[int, ...] = (),
        notes: tuple[str, ...] = (),
    ) -> None:
        """`torus`: sizes of its dimensions where it is one. Raises `ConfigurationError`."""
        self.name = name
        self.nodes: Mapping[str, Node] = {node.name: node for node in nodes}
        self.edges = tuple(edges)
        self.torus = torus
        self.notes = notes
        self.devices = tuple(node.name for node in nodes if node.kind is NodeKind.DEVICE)
        if not 1 <= len(self.devices) <= MOST_DEVICES:
            raise ConfigurationError(
                f"{name} would have {len(self.devices)} devices: give 1 to {MOST_DEVICES}"
            )
        self._out: dict[str, list[Edge]] = {node.name: [] for node in nodes}
        for edge in edges:
            self._out[edge.source].append(edge)
        self._rates = sorted({edge.wire.bytes_per_s for edge in edges}, reverse=True)
        self._reaches: dict[str, _Reach] = {}
        self._near: dict[tuple[float, bool], dict[str, list[Edge]]] = {}
        self._paths: dict[tuple[str, str], Path] = {}
        self._domains: dict[float, tuple[tuple[str, ...], ...]] = {}
        self._levels: tuple[float, ...] | None = None
        self._machines: dict[int | None, tuple[str, ...]] = {}
        for machine in {self.nodes[device].machine for device in self.devices}:
            self._machines[machine] = tuple(
                device for device in self.devices if self.nodes[device].machine == machine
            )

    @property
    def machines(self) -> int:
        """Boxes that hold devices."""
        return len(self._machines)

    def out_of(self, node: str) -> tuple[Edge, ...]:
        """Edges that leave a node."""
        return tuple(self._out[node])

    def path(self, source: str, target: str) -> Path:
        """The widest path, the shortest among equals; inside one machine it stays there.

        Raises `ConfigurationError` for an unknown device or a pair that nothing joins.
        """
        known = self._paths.get((source, target))
        if known is None:
            known = self._paths[source, target] = self._path(source, target)
        return known

    def pair_bytes_per_s(self, source: str, target: str) -> float:
        """Peak one way between two devices; infinite from a device to itself."""
        if source == target:
            self._require(source)
            return float("inf")
        # A target is reached at the first rate that reaches it: its slowest edge has that rate.
        rate = self._reach(source).rates.get(target)
        return self.path(source, target).bytes_per_s if rate is None else rate

    def aggregate_bytes_per_s(self, device: str, peers: Sequence[str] = ()) -> float:
        """Peak one way to all `peers` (default: all of its machine) at once, equally.

        MI300X: 448 GB/s to seven peers, 64 to one.
        """
        chosen = [p for p in (peers or self.machine_devices(device)) if p != device]
        if not chosen:
            return 0.0
        loads = self.loads(Flow(device, peer, 1.0) for peer in chosen)
        return len(chosen) * min(edge.wire.bytes_per_s / load for edge, load in loads.items())

    def machine_devices(self, device: str) -> tuple[str, ...]:
        """The devices of a device's box."""
        self._require(device)
        return self._machines[self.nodes[device].machine]

    def loads(self, flows: Iterable[Flow]) -> dict[Edge, float]:
        """Bytes that each edge carries when every flow takes its path."""
        loads: dict[Edge, float] = {}
        for flow in flows:
            for edge in self.path(flow.source, flow.target).edges:
                loads[edge] = loads.get(edge, 0.0) + flow.size_bytes
        return loads

    def loads_of_all(
        self, sources: Iterable[str], targets: Iterable[str]
    ) -> tuple[dict[Edge, float], float]:
        """Edges' loads, each source sending 1 to each target, and the longest path's latency.

        The same as `loads` of all those flows, without their paths one by one: what goes through
        a node of a source's tree is what the nodes behind it get. Raises `ConfigurationError` for
        a pair that nothing joins.
        """
        loads: dict[Edge, float] = {}
        longest, wanted = 0.0, set(targets)
        for source in sources:
            left = wanted - {source}
            for tree, reached in self._reach(source).trees:
                mine = left.intersection(reached)
                if not mine:
                    continue
                left -= mine
                carried = dict.fromkeys(mine, 1.0)
                for node, edge in reversed(tree.items()):
                    load = carried.get(node)
                    if load is not None:
                        loads[edge] = loads.get(edge, 0.0) + load
                        carried[edge.source] = carried.get(edge.source, 0.0) + load
                latency = {source: 0.0}
                for node, edge in tree.items():
                    if node in carried:
                        latency[node] = latency[edge.source] + edge.wire.hop_s
                longest = max(longest, max(latency[node] for node in mine))
            for missing in left:
                self.path(source, missing)  # Says what is wrong with the pair.
        return loads, longest

    def bisection_bytes_per_s(self) -> float:
        """Peak one way between the first half of the devices and the second.

        The largest flow over the edges that paths between the halves use. Devices stand in order
        of their machines (and of a torus's longest dimension), so that the cut is the natural one.
        """
        half = len(self.devices) // 2
        first, second = self.devices[:half], self.devices[half:]
        if not first:
            return 0.0
        return _max_flow(self.loads_of_all(first, second)[0], first, second)

    def domains(self, least_bytes_per_s: float) -> tuple[tuple[str, ...], ...]:
        """Groups of devices in which neighbours reach each other at least at this rate."""
        if least_bytes_per_s not in self._domains:
            self._domains[least_bytes_per_s] = self._parted(least_bytes_per_s)
        return self._domains[least_bytes_per_s]

    def levels(self) -> tuple[float, ...]:
        """The different bandwidths of pairs, fastest first."""
        if self._levels is not None:
            return self._levels
        rates: set[float] = set()
        for index, source in enumerate(self.devices):
            reached = self._reach(source).rates
            try:
                rates.update(reached[target] for target in self.devices[index + 1 :])
            except KeyError as error:
                self.path(source, str(error.args[0]))  # Says what is wrong with the pair.
        self._levels = tuple(sorted(rates, reverse=True))
        return self._levels

    def fastest_domains(self) -> tuple[tuple[str, ...], ...]:
        """The groups joined at the fastest rate any pair has; single devices stand alone."""
        levels = self.levels()
        return self.domains(levels[0]) if levels else (self.devices,)

    def _parted(self, least: float) -> tuple[tuple[str, ...], ...]:
        # A search from the first device of each group: both ways, as a pair's rates may differ.
        near = {
            source: {target for target, rate in self._reach(source).rates.items() if rate >= least}
            for source in self.devices
        }
        left = dict.fromkeys(self.devices)
        groups = []
        for first in self.devices:
            if first not in left:
                continue
            del left[first]
            members, waiting = [first], [first]
            while waiting:
                source = waiting.pop()
                found = [t for t in near[source] if t in left and source in near[t]]
                for target in found:
                    del left[target]
                members += found
                waiting += found
            inside = set(members)
            groups.append(tuple(device for device in self.devices if device in inside))
        return tuple(groups)

    def _require(self, device: str) -> None:
        node = self.nodes.get(device)
        if node is None or node.kind is not NodeKind.DEVICE:
            shown = ", ".join(self.devices[:4])
            raise ConfigurationError(
                f"{self.name} has no device {device!r}: its devices are {shown}"
                + (", ..." if len(self.devices) > 4 else "")
            )

    def _path(self, source: str, target: str) -> Path:
        self._require(source)
        self._require(target)
        if source == target:
            return Path(())
        for tree, reached in self._reach(source).trees:
            if target in reached:
                return Path(_back(tree, source, target))
        raise ConfigurationError(f"{self.name}: nothing joins {source} and {target}")

    def _reach(self, source: str) -> _Reach:
        # Fastest rate first: the first time a device is reached, it is by its widest path, and
        # breadth-first makes that the shortest of them. Inside the machine before outside it.
        known = self._reaches.get(source)
        if known is not None:
            return known
        self._require(source)
        found = _Reach()
        for wanted, anywhere in ((self.machine_devices(source), False), (self.devices, True)):
            missing = [d for d in wanted if d not in found.rates and d != source]
            for rate in self._rates:
                if not missing:
                    break
                tree = self._reached(source, rate, anywhere)
                reached = [target for target in missing if target in tree]
                if reached:
                    found.trees.append((tree, reached))
                    found.rates.update(dict.fromkeys(reached, rate))
                    missing = [target for target in missing if target not in tree]
        self._reaches[source] = found
        return found

    def _reached(self, source: str, rate: float, anywhere: bool) -> dict[str, Edge]:
        """The edge by which each node was reached first, over edges of at least this rate."""
        near = self._edges_at(rate, anywhere)
        came_by: dict[str, Edge] = {}
        waiting = [source]
        for at in waiting:
            if at != source and not self.nodes[at].forwards:
                continue
            for edge in near[at]:
                target = edge.target
                if target not in came_by and target != source:
                    came_by[target] = edge
                    waiting.append(target)
        return came_by

    def _edges_at(self, rate: float, anywhere: bool) -> dict[str, list[Edge]]:
        """Edges out of each node of at least this rate, those that leave its machine or not."""
        key = (rate, anywhere)
        if key not in self._near:
            machine = {name: node.machine for name, node in self.nodes.items()}
            self._near[key] = {
                name: [
                    edge
                    for edge in edges
                    if edge.wire.bytes_per_s >= rate
                    and (anywhere or machine[edge.target] == machine[name])
                ]
                for name, edges in self._out.items()
            }
        return self._near[key]


def _back(came_by: Mapping[str, Edge], source: str, target: str) -> tuple[Edge, ...]:
    edges = []
    while target != source:
        edge = came_by[target]
        edges.append(edge)
        target = edge.source
    return tuple(reversed(edges))


def _max_flow(edges: Iterable[Edge], sources: Sequence[str], sinks: Sequence[str]) -> float:
    """Edmonds-Karp with every source and every sink joined to one of each."""
    start, end = ("", "start"), ("", "end")
    room: dict[tuple[str, str], dict[tuple[str, str], float]] = {}

    def join(a: tuple[str, str], b: tuple[str, str], capacity: float) -> None:
        room.setdefault(a, {})[b] = room.get(a, {}).get(b, 0.0) + capacity
        room.setdefault(b, {}).setdefault(a, 0.0)

    for edge in edges:
        join(("node", edge.source), ("node", edge.target), edge.wire.bytes_per_s)
    for device in sources:
        join(start, ("node", device), float("inf"))
    for device in sinks:
        join(("node", device), end, float("inf"))
    whole = 0.0
    while True:
        came: dict[tuple[str, str], tuple[str, str]] = {start: start}
        waiting = deque([start])
        while waiting and end not in came:
            at = waiting.popleft()
            for to, left in room[at].items():
                if left > 1e-3 and to not in came:
                    came[to] = at
                    waiting.append(to)
        if end not in came:
            return whole
        steps, at = [], end
        while at != start:
            steps.append((came[at], at))
            at = came[at]
        pushed = min(room[a][b] for a, b in steps)
        for a, b in steps:
            room[a][b] -= pushed
            room[b][a] += pushed
        whole += pushed
