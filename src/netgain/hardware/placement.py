"""Which rank runs on which device, and which layout to choose for a number of them.

Ranks that synchronise most often stand closest: tensor parallel ranks inside the fastest domain,
then expert parallel ranks or pipeline neighbours, replicas last.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from netgain.errors import ConfigurationError
from netgain.hardware.topology import Topology


@dataclass(frozen=True, slots=True)
class Layout:
    """How a model is divided: `data` replicas of `pipeline` stages of `tensor` ranks.

    `expert` ranks, if above 1, are drawn from the `data` x `tensor` ranks of one stage.
    """

    data: int = 1
    pipeline: int = 1
    tensor: int = 1
    expert: int = 1

    def __post_init__(self) -> None:
        """Raises `ConfigurationError` for a size below 1 or experts that do not divide."""
        for name in ("data", "pipeline", "tensor", "expert"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{name} parallel {getattr(self, name)}: give 1 or more")
        stage = self.data * self.tensor
        if stage % self.expert:
            raise ConfigurationError(
                f"expert parallel {self.expert} does not divide the {stage} ranks of a stage "
                f"(data {self.data} x tensor {self.tensor}): give one of "
                f"{', '.join(str(d) for d in _divisors(stage))}"
            )

    @property
    def world(self) -> int:
        """Devices it takes: DP x TP x PP."""
        return self.data * self.pipeline * self.tensor

    def __str__(self) -> str:
        sizes = {"DP": self.data, "TP": self.tensor, "PP": self.pipeline, "EP": self.expert}
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
    """Ranks on devices, and what the groups got: peak rates of their slowest pairs, bytes/s.

    None where a layout has no such group.
    """

    layout: Layout
    ranks: tuple[Rank, ...]
    tensor_bytes_per_s: float | None
    stage_bytes_per_s: float | None
    expert_bytes_per_s: float | None
    tensor_in_fast_domain: bool

    def tensor_groups(self) -> tuple[tuple[str, ...], ...]:
        """Devices that all-reduce together."""
        return _groups(self.ranks, lambda rank: (rank.data, rank.stage))

    def expert_groups(self) -> tuple[tuple[str, ...], ...]:
        """Devices that exchange tokens for experts."""
        sharing = self.layout.expert
        return _groups(
            self.ranks,
            lambda rank: (
                rank.stage,
                (rank.data * self.layout.tensor + rank.tensor) // sharing,
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


def place(topology: Topology, layout: Layout) -> Placement:
    """The layout on the topology's devices, fastest domains first.

    Raises `ConfigurationError` if it takes more devices than there are.
    """
    if layout.world > len(topology.devices):
        raise ConfigurationError(
            f"{layout} takes {layout.world} devices and {topology.name} has "
            f"{len(topology.devices)}: lower a factor or name more devices"
        )
    groups = _gather([(device,) for device in _by_domain(topology)], topology, layout.tensor)
    groups = groups[: layout.data * layout.pipeline]
    ranks = []
    for index, group in enumerate(groups):
        if layout.expert > 1:  # Experts talk every layer, stages once a step: keep those close.
            stage, data = divmod(index, layout.data)
        else:
            data, stage = divmod(index, layout.pipeline)
        for tensor, device in enumerate(group):
            expert = (data * layout.tensor + tensor) % layout.expert
            ranks.append(Rank(data, stage, tensor, expert, device))
    ranks.sort(key=lambda rank: (rank.data, rank.stage, rank.tensor))
    placed = Placement(layout, tuple(ranks), None, None, None, tensor_in_fast_domain=True)
    domains = [set(domain) for domain in topology.fastest_domains()]
    inside = all(
        any(set(group) <= domain for domain in domains) for group in placed.tensor_groups()
    )
    return Placement(
        layout,
        placed.ranks,
        _slowest(topology, placed.tensor_groups()),
        _slowest(topology, placed.boundaries()),
        _slowest(topology, placed.expert_groups()) if layout.expert > 1 else None,
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
        layout = Layout(data=available)
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
    layout = Layout(data=data, pipeline=stages, tensor=tensor)
    placement = place(topology, layout)
    reason = _reason(topology, layout, domain, kv_heads)
    return Proposal(layout, reason, placement)


def check_tensor(tensor: int, heads: int, kv_heads: int) -> tuple[str, ...]:
    """Warnings about a tensor parallel width. Raises `ConfigurationError` if it cannot be laid out."""
    if heads % tensor:
        raise ConfigurationError(
            f"tensor parallel {tensor} does not divide {heads} attention heads: give one of "
            f"{', '.join(str(d) for d in _divisors(heads))}"
        )
    if tensor > kv_heads:
        copies = tensor / kv_heads
        return (
            f"tensor parallel {tensor} is wider than {kv_heads} KV heads: the group stores and "
            f"moves {copies:g} times the KV bytes",
        )
    if kv_heads % tensor:
        return (f"{kv_heads} KV heads do not divide by {tensor}: ranks hold unequal KV",)
    return ()


def _reason(topology: Topology, layout: Layout, domain: int, kv_heads: int | None) -> str:
    parts = []
    fast = f"{topology.levels()[0] / 1e9:g} GB/s"
    if layout.tensor > 1:
        parts.append(f"TP {layout.tensor} inside each fast domain of {domain} ({fast})")
    if layout.pipeline > 1:
        parts.append(
            f"PP {layout.pipeline} between them: stages exchange activations once a step, "
            "tensor ranks twice a layer"
        )
    if layout.data > 1:
        parts.append(f"DP {layout.data}: replicas of that share nothing")
    if kv_heads is not None and layout.tensor > kv_heads:
        parts.append(f"KV heads ({kv_heads}) are copied {layout.tensor / kv_heads:g} times")
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
            members = [device for device in left if device in set(domain)]
            whole = len(members) // size * size
            found += [tuple(members[i : i + size]) for i in range(0, whole, size)]
            rest += members[whole:]
        # Groups inside the fastest domains stand first: a layout smaller than the machine takes them.
        groups += sorted(found, key=lambda group: place_of[group[0]])
        left = [device for device in left if device in set(rest)]
    return groups


def _groups(ranks: Sequence[Rank], key: Callable[[Rank], tuple[int, ...]]
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
