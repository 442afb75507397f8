"""Which rank runs on which device, and which layout to choose for a number of them.

Ranks that synchronise most often stand closest: tensor parallel ranks inside the fastest domain,
then expert parallel ranks or pipeline neighbours, replicas last.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from netgain.cost.layout import Layout
from netgain.errors import ConfigurationError
from netgain.hardware.topology import Topology


def described(layout: Layout) -> str:
    """The factors above 1: `TP 2 x PP 2`."""
    sizes = {"DP": layout.dp, "TP": layout.tp, "PP": layout.pp, "EP": layout.ep}
    return " x ".join(f"{k} {v}" for k, v in sizes.items() if v > 1) or "one device"


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank's place in the layout and its device."""

    data: int
    stage: int
    tensor: int
    expert: int
    device: str


@dataclass(frozen=True, slots=True)
class Placement:
    """Ranks on devices, and the peak rate of the slowest tensor pair, bytes/s (None: no pairs)."""

    layout: Layout
    ranks: tuple[Rank, ...]
    tensor_bytes_per_s: float | None
    tensor_in_fast_domain: bool

    def tensor_groups(self) -> tuple[tuple[str, ...], ...]:
        """Devices that all-reduce together."""
        return _groups(self.ranks, lambda rank: (rank.data, rank.stage))

    def expert_groups(self) -> tuple[tuple[str, ...], ...]:
        """Devices that exchange tokens for experts."""
        sharing = self.layout.ep
        return _groups(
            self.ranks,
            lambda rank: (
                rank.stage,
                (rank.data * self.layout.tp + rank.tensor) // sharing,
            ),
        )

    def boundaries(self) -> tuple[tuple[str, str], ...]:
        """Pairs of devices that hand activations from one stage to the next."""
        at = {(rank.data, rank.stage, rank.tensor): rank.device for rank in self.ranks}
        return tuple(
            (device, at[data, stage + 1, tensor])
            for (data, stage, tensor), device in at.items()
            if (data, stage + 1, tensor) in at
        )


@lru_cache(maxsize=64)
def place(topology: Topology, layout: Layout) -> Placement:
    """The layout on the topology's devices, fastest domains first.

    Raises `ConfigurationError` if it takes more devices than there are.
    """
    if layout.devices > len(topology.devices):
        raise ConfigurationError(
            f"{described(layout)} takes {layout.devices} devices and {topology.name} has "
            f"{len(topology.devices)}: lower a factor or name more devices"
        )
    if layout.dp * layout.tp % layout.ep:
        raise ConfigurationError(
            f"expert parallel {layout.ep} does not divide the {layout.dp * layout.tp} ranks of a "
            f"stage: give one of {', '.join(map(str, _divisors(layout.dp * layout.tp)))}"
        )
    groups = _gather([(device,) for device in _by_domain(topology)], topology, layout.tp)
    groups = groups[: layout.dp * layout.pp]
    ranks = []
    for index, group in enumerate(groups):
        if layout.ep > 1:  # Experts talk every layer, stages once a step: keep those close.
            stage, data = divmod(index, layout.dp)
        else:
            data, stage = divmod(index, layout.pp)
        for tensor, device in enumerate(group):
            expert = (data * layout.tp + tensor) % layout.ep
            ranks.append(Rank(data, stage, tensor, expert, device))
    ranks.sort(key=lambda rank: (rank.data, rank.stage, rank.tensor))
    placed = Placement(layout, tuple(ranks), None, tensor_in_fast_domain=True)
    domains = [set(domain) for domain in topology.fastest_domains()]
    inside = all(
        any(set(group) <= domain for domain in domains) for group in placed.tensor_groups()
    )
    return Placement(
        layout,
        placed.ranks,
        _slowest(topology, placed.tensor_groups()),
        inside,
    )


@dataclass(frozen=True, slots=True)
class Proposal:
    """A layout, why, and where its ranks go."""

    layout: Layout
    reason: str
    placement: Placement


def propose(
    topology: Topology,
    devices_per_model: int,
    heads: int | None = None,
    kv_heads: int | None = None,
    layers: int | None = None,
) -> Proposal:
    """The layout for a model that needs `devices_per_model` devices, on all of the topology.

    Fits one: replicas. Fits a fast domain: tensor parallel inside it, replicas of that. Needs
    more: tensor parallel inside each domain, pipeline stages between them. `heads`, `kv_heads`
    and `layers`, if given, bound what can be divided.

    Raises `ConfigurationError` for a model that needs more devices than there are.
    """
    available = len(topology.devices)
    if devices_per_model < 1:
        raise ConfigurationError(f"a model on {devices_per_model} devices: give 1 or more")
    if devices_per_model > available:
        raise ConfigurationError(
            f"the model needs {devices_per_model} devices and {topology.name} has {available}"
        )
    if devices_per_model == 1:
        layout = Layout(dp=available)
        reason = "the model fits one device: replicas need no synchronisation"
        return Proposal(layout, reason, place(topology, layout))
    domains = [len(members) for members in topology.fastest_domains()]
    domain = min(domains)
    widths = [
        width
        for width in range(1, domain + 1)
        if (heads % width == 0 if heads is not None else width & (width - 1) == 0)
    ]
    enough = [width for width in widths if width >= devices_per_model]
    tensor = enough[0] if enough else widths[-1]
    stages = -(-devices_per_model // tensor)
    if layers is not None and stages > layers:
        raise ConfigurationError(
            f"{stages} pipeline stages for {layers} layers: no stage may be empty"
        )
    data = sum(size // tensor for size in domains) // stages
    if not data:
        raise ConfigurationError(
            f"tensor parallel {tensor} (what fits domains of {domain}"
            + (f" and divides {heads} heads" if heads else "")
            + f") x {stages} stages takes {tensor * stages} devices of {available}: "
            "name more devices or fewer per model"
        )
    layout = Layout(dp=data, pp=stages, tp=tensor)
    placement = place(topology, layout)
    reason = _reason(topology, layout, domain, kv_heads)
    return Proposal(layout, reason, placement)


def _reason(topology: Topology, layout: Layout, domain: int, kv_heads: int | None) -> str:
    parts = []
    fast = f"{topology.levels()[0] / 1e9:g} GB/s"
    if layout.tp > 1:
        parts.append(f"TP {layout.tp} inside each fast domain of {domain} ({fast})")
    if layout.pp > 1:
        parts.append(
            f"PP {layout.pp} between them: stages exchange activations once a step, "
            "tensor ranks twice a layer"
        )
    if layout.dp > 1:
        parts.append(f"DP {layout.dp}: replicas of that share nothing")
    if kv_heads is not None and layout.tp > kv_heads:
        parts.append(f"keys and values are copied {layout.tp / kv_heads:g} times")
    return "; ".join(parts)


def _by_domain(topology: Topology) -> list[str]:
    """Devices so that those joined fastest stand together, at every level."""
    order = {device: [index] for index, device in enumerate(topology.devices)}
    for rate in reversed(topology.levels()):
        for domain in topology.domains(rate):
            first = topology.devices.index(domain[0])
            for device in domain:
                order[device].insert(-1, first)
    return sorted(topology.devices, key=lambda device: order[device])


def _gather(
    units: Sequence[tuple[str, ...]], topology: Topology, size: int
) -> list[tuple[str, ...]]:
    """Groups of `size` devices, inside the fastest domains first; what is left over is joined."""
    if size == 1:
        return list(units)
    left = [unit[0] for unit in units]
    place_of = {device: index for index, device in enumerate(left)}
    groups: list[tuple[str, ...]] = []
    for rate in topology.levels():
        rest = []
        found: list[tuple[str, ...]] = []
        for domain in topology.domains(rate):
            inside = set(domain)
            members = [device for device in left if device in inside]
            whole = len(members) // size * size
            found += [tuple(members[i : i + size]) for i in range(0, whole, size)]
            rest += members[whole:]
        # Those inside the fastest domains stand first: a small layout takes them.
        groups += sorted(found, key=lambda group: place_of[group[0]])
        remaining = set(rest)
        left = [device for device in left if device in remaining]
    return groups


def _groups(
    ranks: Sequence[Rank], key: Callable[[Rank], tuple[int, ...]]
) -> tuple[tuple[str, ...], ...]:
    found: dict[tuple[int, ...], list[str]] = {}
    for rank in ranks:
        found.setdefault(key(rank), []).append(rank.device)
    return tuple(tuple(group) for group in found.values())


def _slowest(topology: Topology, groups: Sequence[Sequence[str]]) -> float | None:
    rates = [
        topology.pair_bytes_per_s(source, target)
        for group in groups
        for source in group
        for target in group
        if source != target
    ]
    return min(rates) if rates else None


def _divisors(number: int) -> list[int]:
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]
