"""Which devices are joined by what: a graph with one edge per direction.

A pair's bandwidth is that of the path its data takes, an aggregate that of all edges out of a
device together; the two differ wherever there is no switch. Devices do not pass on what is meant
for others, except in a torus.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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
        self._paths: dict[str, dict[str, Path]] = {}
        self._levels: tuple[float, ...] | None = None

    @property
    def machines(self) -> int:
        """Boxes that hold devices."""
        return len({self.nodes[device].machine for device in self.devices})

    def out_of(self, node: str) -> tuple[Edge, ...]:
        """Edges that leave a node."""
        return tuple(self._out[node])

    def path(self, source: str, target: str) -> Path:
        """The widest path, the shortest among equals; inside one machine it stays there.

        Raises `ConfigurationError` for an unknown device or a pair that nothing joins.
        """
        self._require(source)
        self._require(target)
        if source == target:
            return Path(())
        if source not in self._paths:
            self._paths[source] = self._paths_from(source)
        try:
            return self._paths[source][target]
        except KeyError:
            raise ConfigurationError(f"{self.name}: nothing joins {source} and {target}") from None

    def pair_bytes_per_s(self, source: str, target: str) -> float:
        """Peak one way between two devices; infinite from a device to itself."""
        return float("inf") if source == target else self.path(source, target).bytes_per_s

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
        machine = self.nodes[device].machine
        return tuple(other for other in self.devices if self.nodes[other].machine == machine)

    def loads(self, flows: Iterable[Flow]) -> dict[Edge, float]:
        """Bytes that each edge carries when every flow takes its path."""
        loads: dict[Edge, float] = {}
        for flow in flows:
            for edge in self.path(flow.source, flow.target).edges:
                loads[edge] = loads.get(edge, 0.0) + flow.size_bytes
        return loads

    def bisection_bytes_per_s(self) -> float:
        """Peak one way between the first half of the devices and the second.

        The largest flow over the edges that paths between the halves use. Devices stand in order
        of their machines (and of a torus's longest dimension), so that the cut is the natural one.
        """
        half = len(self.devices) // 2
        first, second = self.devices[:half], self.devices[half:]
        if not first:
            return 0.0
        used = {
            edge
            for source in first
            for target in second
            for edge in self.path(source, target).edges
        }
        return _max_flow(used, first, second)

    def domains(self, least_bytes_per_s: float) -> tuple[tuple[str, ...], ...]:
        """Groups of devices in which neighbours reach each other at least at this rate."""
        group = {device: device for device in self.devices}

        def root(device: str) -> str:
            while group[device] != device:
                group[device] = group[group[device]]
                device = group[device]
            return device

        for index, source in enumerate(self.devices):
            for target in self.devices[index + 1 :]:
                if root(source) != root(target) and self._joined(source, target, least_bytes_per_s):
                    group[root(target)] = root(source)
        found: dict[str, list[str]] = {}
        for device in self.devices:
            found.setdefault(root(device), []).append(device)
        return tuple(tuple(members) for members in found.values())

    def levels(self) -> tuple[float, ...]:
        """The different bandwidths of pairs, fastest first."""
        if self._levels is not None:
            return self._levels
        rates = {
            self.pair_bytes_per_s(source, target)
            for index, source in enumerate(self.devices)
            for target in self.devices[index + 1 :]
        }
        self._levels = tuple(sorted(rates, reverse=True))
        return self._levels

    def fastest_domains(self) -> tuple[tuple[str, ...], ...]:
        """The groups joined at the fastest rate any pair has; single devices stand alone."""
        levels = self.levels()
        return self.domains(levels[0]) if levels else (self.devices,)

    def _joined(self, source: str, target: str, least: float) -> bool:
        return (
            self.pair_bytes_per_s(source, target) >= least
            and self.pair_bytes_per_s(target, source) >= least
        )

    def _require(self, device: str) -> None:
        node = self.nodes.get(device)
        if node is None or node.kind is not NodeKind.DEVICE:
            shown = ", ".join(self.devices[:4])
            raise ConfigurationError(
                f"{self.name} has no device {device!r}: its devices are {shown}"
                + (", ..." if len(self.devices) > 4 else "")
            )

    def _paths_from(self, source: str) -> dict[str, Path]:
        # Fastest rate first: the first time a device is reached, it is by its widest path, and
        # breadth-first makes that the shortest of them. Inside the machine before outside it.
        found: dict[str, Path] = {}
        mine = self.machine_devices(source)
        for wanted, anywhere in ((mine, False), (self.devices, True)):
            for rate in self._rates:
                missing = [d for d in wanted if d not in found and d != source]
                if not missing:
                    break
                came_by = self._reached(source, rate, anywhere)
                for target in missing:
                    if target in came_by:
                        found[target] = Path(_back(came_by, source, target))
        return found

    def _reached(self, source: str, rate: float, anywhere: bool) -> dict[str, Edge]:
        """The edge by which each node was reached first, over edges of at least this rate."""
        machine = self.nodes[source].machine
        came_by: dict[str, Edge] = {}
        waiting = deque([source])
        while waiting:
            at = waiting.popleft()
            if at != source and not self.nodes[at].forwards:
                continue
            for edge in self._out[at]:
                target = edge.target
                if target == source or target in came_by or edge.wire.bytes_per_s < rate:
                    continue
                if anywhere or self.nodes[target].machine == machine:
                    came_by[target] = edge
                    waiting.append(target)
        return came_by


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
