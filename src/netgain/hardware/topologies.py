"""Topologies by name, and from a device, a number of them and a network."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import pairwise, product
from typing import Final

from netgain.errors import ConfigurationError
from netgain.hardware.catalogue import Catalogue
from netgain.hardware.device import Device, Fabric
from netgain.hardware.names import nearest, normalised
from netgain.hardware.topology import MOST_DEVICES, Edge, Node, NodeKind, Topology
from netgain.hardware.wire import Wire, wire

SOCKET_LINK: Final = "CPU socket link"
_PER_SOCKET: Final = 4


@dataclass(frozen=True, slots=True)
class Shape:
    """How machines are put together.

    `fabric` joins the devices of a machine over `scale_up` links; `host` is each device's own
    link to its socket; `network` joins machines over `rails` adapters each (0: no network).
    `torus` holds the sizes of a torus, which is one machine however large.
    """

    fabric: Fabric
    scale_up: str
    host: str
    devices_per_machine: int
    machines: int = 1
    network: str = "InfiniBand NDR"
    rails: int = 8
    torus: tuple[int, ...] = ()
    bridge: int = 2
    prefix: str = "gpu"


_SHAPES: Final[Mapping[str, tuple[str, Shape]]] = {
    "nvswitch-a100": (
        "8 A100 SXM behind NVSwitch",
        Shape(Fabric.SWITCH, "NVLink 3", "PCIe 4 x16", 8, network="InfiniBand HDR"),
    ),
    "nvswitch-h100": (
        "8 H100 SXM behind NVSwitch",
        Shape(Fabric.SWITCH, "NVLink 4", "PCIe 5 x16", 8),
    ),
    "nvswitch-h200": (
        "8 H200 SXM behind NVSwitch",
        Shape(Fabric.SWITCH, "NVLink 4", "PCIe 5 x16", 8),
    ),
    "nvswitch-h800": (
        "8 H800 behind NVSwitch",
        Shape(Fabric.SWITCH, "H800 NVLink", "PCIe 5 x16", 8),
    ),
    "nvswitch-b200": (
        "8 B200 behind NVSwitch",
        Shape(Fabric.SWITCH, "NVLink 5", "PCIe 5 x16", 8),
    ),
    "nvl72": (
        "72 GB200 in one NVLink domain",
        Shape(Fabric.SWITCH, "NVLink 5", "NVLink-C2C", 72, network="InfiniBand XDR", rails=72),
    ),
    "bridge-a100": (
        "4 A100 PCIe, two NVLink bridges of two",
        Shape(Fabric.BRIDGE, "NVLink bridge", "PCIe 4 x16", 4, network="InfiniBand HDR", rails=1),
    ),
    "bridge-h100": (
        "4 H100 PCIe, two NVLink bridges of two",
        Shape(Fabric.BRIDGE, "NVLink bridge", "PCIe 5 x16", 4, rails=1),
    ),
    "bridge-h100-nvl": (
        "4 H100 NVL, two NVLink bridges of two",
        Shape(Fabric.BRIDGE, "NVLink bridge", "PCIe 5 x16", 4, rails=1),
    ),
    "bridge-h200-nvl": (
        "4 H200 NVL, one NVLink bridge of four",
        Shape(Fabric.BRIDGE, "NVLink 4", "PCIe 5 x16", 4, rails=1, bridge=4),
    ),
    "pcie4": ("4 GPUs on PCIe 4, no bridge", Shape(Fabric.NONE, "", "PCIe 4 x16", 4, rails=1)),
    "pcie5": ("4 GPUs on PCIe 5, no bridge", Shape(Fabric.NONE, "", "PCIe 5 x16", 4, rails=1)),
    "mesh-mi300x": (
        "8 MI300X, each pair with a link of its own",
        Shape(Fabric.MESH, "xGMI MI300X", "PCIe 5 x16", 8),
    ),
    "mesh-mi355x": (
        "8 MI355X, each pair with a link of its own",
        Shape(Fabric.MESH, "xGMI MI355X", "PCIe 5 x16", 8),
    ),
    "torus-v5e": (
        "16 TPU v5e in a 4x4 torus",
        Shape(Fabric.TORUS_2D, "TPU v5e ICI", "PCIe 4 x16", 16, torus=(4, 4), prefix="tpu"),
    ),
    "torus-v6e": (
        "16 TPU v6e in a 4x4 torus",
        Shape(Fabric.TORUS_2D, "TPU v6e ICI", "PCIe 4 x16", 16, torus=(4, 4), prefix="tpu"),
    ),
    "torus-v5p": (
        "64 TPU v5p in a 4x4x4 torus",
        Shape(Fabric.TORUS_3D, "TPU v5p ICI", "PCIe 4 x16", 64, torus=(4, 4, 4), prefix="tpu"),
    ),
    "cpu-sockets": (
        "2 CPU sockets of one machine",
        Shape(Fabric.RING, SOCKET_LINK, "", 2, rails=1, prefix="cpu", network="RoCE 100G"),
    ),
}


def topology_names() -> tuple[tuple[str, str], ...]:
    """(name, what it is) of every preset."""
    return tuple((name, title) for name, (title, _) in _SHAPES.items())


def preset(
    catalogue: Catalogue,
    name: str,
    devices: int | None = None,
    network: str | None = None,
    rails: int | None = None,
) -> Topology:
    """The topology of this name, with `devices` in all (whole machines beyond one).

    Raises `ConfigurationError` for an unknown name (naming the nearest), a number of devices that
    does not fill machines, or an unknown network.
    """
    index = {normalised(known): known for known in _SHAPES}
    found = index.get(normalised(name))
    if found is None:
        close = nearest(name, index) or list(_SHAPES)[:3]
        raise ConfigurationError(
            f"unknown topology {name!r}; nearest: {', '.join(close)}. "
            "`netgain plan links --list` shows all"
        )
    title, shape = _SHAPES[found]
    if network is not None:
        shape = replace(shape, network=network)
    if rails is not None:
        shape = replace(shape, rails=_rails(rails))
    shape = sized(shape, devices) if devices is not None else shape
    return build(catalogue, found, shape, (title,))


def for_device(
    catalogue: Catalogue,
    device: Device,
    devices: int,
    network: str = "InfiniBand NDR",
    rails: int | None = None,
) -> Topology:
    """`devices` of one kind as they are usually built: its scale-up fabric, then the network."""
    _check_count(devices)
    scale_up = device.scale_up
    host = device.host.link if device.host else "PCIe 4 x16"
    fabric = scale_up.fabric if scale_up else Fabric.NONE
    per_machine = min(8, max(1, devices)) if scale_up is None else scale_up.domain
    if fabric is Fabric.BRIDGE:
        per_machine = max(scale_up.domain if scale_up else 2, min(8, devices))
    shape = Shape(
        fabric,
        scale_up.link if scale_up else "",
        host,
        per_machine,
        network=network,
        rails=_rails(rails) if rails is not None else (8 if per_machine >= 8 else 1),
        torus=_torus_sizes(fabric, devices),
        bridge=scale_up.domain if scale_up else 2,
        prefix="tpu" if fabric in (Fabric.TORUS_2D, Fabric.TORUS_3D) else "gpu",
    )
    return build(catalogue, f"{device.name} x{devices}", sized(shape, devices), (device.label,))


def sized(shape: Shape, devices: int) -> Shape:
    """The shape with this many devices. Raises `ConfigurationError` unless they fill machines."""
    _check_count(devices)
    if shape.torus:
        return replace(
            shape, torus=_torus_sizes(shape.fabric, devices), devices_per_machine=devices
        )
    if devices <= shape.devices_per_machine:
        return replace(shape, devices_per_machine=devices, machines=1)
    machines, left = divmod(devices, shape.devices_per_machine)
    if left:
        raise ConfigurationError(
            f"{devices} devices do not fill machines of {shape.devices_per_machine}: "
            f"give {machines * shape.devices_per_machine} or "
            f"{(machines + 1) * shape.devices_per_machine}"
        )
    return replace(shape, machines=machines)


def _check_count(devices: int) -> None:
    if not 1 <= devices <= MOST_DEVICES:
        raise ConfigurationError(f"{devices} devices: give 1 to {MOST_DEVICES:,}")


def _rails(rails: int) -> int:
    if not 1 <= rails <= MOST_DEVICES:
        raise ConfigurationError(f"{rails} rails: give 1 or more network adapters per machine")
    return rails


def build(catalogue: Catalogue, name: str, shape: Shape, notes: tuple[str, ...] = ()) -> Topology:
    """The graph of a shape. Raises `ConfigurationError` for an unknown link."""
    if shape.torus:
        return _torus(catalogue, name, shape, notes)
    builder = _Builder(catalogue, shape)
    for machine in range(shape.machines):
        builder.machine(machine)
    if shape.machines > 1:
        builder.network()
    return Topology(name, builder.nodes, builder.edges, notes=notes)


class _Builder:
    """Nodes and edges of machines, one after another."""

    def __init__(self, catalogue: Catalogue, shape: Shape) -> None:
        self.nodes: list[Node] = []
        self.edges: list[Edge] = []
        self._shape = shape
        self._catalogue = catalogue
        self._wire: Callable[[str], Wire] = cache(partial(wire, catalogue))

    def machine(self, machine: int) -> None:
        shape = self._shape
        names = [self._device(machine, index) for index in range(shape.devices_per_machine)]
        self.nodes += [Node(name, NodeKind.DEVICE, machine, forwards=False) for name in names]
        if shape.host:
            self._hosts(machine, names)
        if shape.fabric is Fabric.SWITCH:
            self._switch(machine, names)
        elif shape.fabric is Fabric.BRIDGE:
            for first in range(0, len(names), shape.bridge):
                self._mesh(names[first : first + shape.bridge])
        elif shape.fabric is not Fabric.NONE:
            self._mesh(names)

    def network(self) -> None:
        """Adapters of each machine, one switch per rail, and a spine that joins the rails."""
        shape = self._shape
        if shape.rails < 1:
            raise ConfigurationError("machines without an adapter: give 1 rail or more")
        one = self._wire(shape.network)
        if shape.network.casefold().startswith(("efa", "gcp")):
            one = one.scaled(1 / shape.rails)  # What the sheet gives is a whole machine's.
        self.nodes.append(Node("spine", NodeKind.SWITCH, None))
        for rail in range(shape.rails):
            switch = f"rail{rail}"
            self.nodes.append(Node(switch, NodeKind.SWITCH, None))
            self._both(switch, "spine", one.scaled(shape.machines))
            for machine in range(shape.machines):
                nic = f"m{machine}.nic{rail}"
                self.nodes.append(Node(nic, NodeKind.NIC, machine))
                self._both(nic, switch, one)
                self._to_nic(machine, rail, nic)

    def _to_nic(self, machine: int, rail: int, nic: str) -> None:
        shape = self._shape
        host = self._wire(shape.host) if shape.host else self._wire(shape.network)
        mine = range(
            rail * shape.devices_per_machine // shape.rails,
            (rail + 1) * shape.devices_per_machine // shape.rails,
        )
        if len(mine) == shape.devices_per_machine:
            # One adapter for all: it hangs on the first socket.
            gate = f"m{machine}.host0" if shape.host else self._device(machine, 0)
            self._both(gate, nic, host)
            if not shape.host:
                for index in range(1, shape.devices_per_machine):
                    self._both(self._device(machine, index), nic, host)
            return
        for index in mine:
            self._both(self._device(machine, index), nic, host)

    def _hosts(self, machine: int, names: Sequence[str]) -> None:
        sockets = max(1, math.ceil(len(names) / _PER_SOCKET))
        if self._shape.fabric is Fabric.BRIDGE and len(names) <= _PER_SOCKET:
            sockets = 1
        hosts = [f"m{machine}.host{socket}" for socket in range(sockets)]
        self.nodes += [Node(host, NodeKind.HOST, machine) for host in hosts]
        own = self._wire(self._shape.host)
        for index, name in enumerate(names):
            self._both(name, hosts[index * sockets // len(names)], own)
        between = self._wire(SOCKET_LINK)
        for first, second in pairwise(hosts):
            self._both(first, second, between)

    def _switch(self, machine: int, names: Sequence[str]) -> None:
        switch = f"m{machine}.switch"
        self.nodes.append(Node(switch, NodeKind.SWITCH, machine))
        for name in names:
            self._both(name, switch, self._wire(self._shape.scale_up))

    def _mesh(self, names: Sequence[str]) -> None:
        one = self._wire(self._shape.scale_up)
        shared = any(
            link.name == one.name and link.pair_bytes_s.value == link.per_direction_bytes_s.value
            for link in self._catalogue.links
        )
        if len(names) > 2 and shared:
            # Nothing is said of a pair: all pairs of a device share what it has to all of them.
            one = one.scaled(1 / (len(names) - 1))
        for index, first in enumerate(names):
            for second in names[index + 1 :]:
                self._both(first, second, one)

    def _both(self, first: str, second: str, one: Wire) -> None:
        self.edges += [Edge(first, second, one), Edge(second, first, one)]

    def _device(self, machine: int, index: int) -> str:
        return f"m{machine}.{self._shape.prefix}{index}"


def _torus(catalogue: Catalogue, name: str, shape: Shape, notes: tuple[str, ...]) -> Topology:
    # The sheet's rate is a chip's over all its links: two in each dimension.
    link = wire(catalogue, shape.scale_up).scaled(1 / (2 * len(shape.torus)))
    places = list(product(*(range(size) for size in shape.torus)))
    names = {place: f"{shape.prefix}{'.'.join(map(str, place))}" for place in places}
    edges = []
    for place in places:
        for axis, size in enumerate(shape.torus):
            for step in {1, size - 1} if size > 1 else set():
                other = (*place[:axis], (place[axis] + step) % size, *place[axis + 1 :])
                doubled = link.scaled(2) if size == 2 else link
                edges.append(Edge(names[place], names[other], doubled))
    nodes = [Node(each, NodeKind.DEVICE, 0, forwards=True) for each in names.values()]
    return Topology(name, nodes, edges, torus=shape.torus, notes=notes)


def _torus_sizes(fabric: Fabric, devices: int) -> tuple[int, ...]:
    """The most cube-like sizes, largest first: the natural cut is across the longest dimension."""
    dimensions = {Fabric.TORUS_2D: 2, Fabric.TORUS_3D: 3}.get(fabric, 0)
    sizes: list[int] = []
    left = devices
    for axis in range(dimensions, 0, -1):
        root = max(1, round(left ** (1 / axis)))
        size = next(s for s in range(root, 0, -1) if left % s == 0) if axis > 1 else left
        sizes.append(size)
        left //= size
    return tuple(sorted(sizes, reverse=True))
