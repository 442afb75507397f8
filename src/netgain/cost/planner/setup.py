"""The engine that a plan is about: a model, stored in one way, on devices joined in one way."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from netgain.cost.communication import (
    EXPERT_LAUNCH_S,
    expert_exchange,
    send,
    tensor_step,
)
from netgain.cost.kv_bytes import kv_bytes_per_sequence_stored
from netgain.cost.layout import ONE_DEVICE, Layout
from netgain.cost.memory import MemoryPlan, MemoryQuestion, plan_memory
from netgain.cost.model_shape import Experts, ModelShape
from netgain.cost.operations import Stored
from netgain.cost.placement import Placement, described, place
from netgain.cost.precision import KVFormat, WeightFormat
from netgain.cost.roofline import ASSUMED_EFFICIENCY, Efficiency, RooflineModel
from netgain.cost.step_work import decode
from netgain.cost.ways_out import fewest_devices
from netgain.errors import ConfigurationError
from netgain.hardware.device import Device
from netgain.hardware.topology import Topology
from netgain.report.document import Basis

GRAPH_LAUNCH_S: Final = 8e-6
"""A collective inside a captured graph or a custom kernel, no launch from the host: 3 to 9 us for
small buffers on A100, H100, H200 and B200 (aiconfigurator 095f58a5, custom_allreduce_perf)."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A decode step somebody measured: it calibrates the model's share of memory bandwidth."""

    seconds: float
    batch: int
    context_tokens: int


@dataclass(frozen=True, slots=True)
class Setup:
    """One engine. `topology` is needed where the layout has more than one rank.

    `launch_s` is what a collective costs before its first byte.
    """

    shape: ModelShape
    device: Device
    weights: WeightFormat
    kv: KVFormat
    layout: Layout = ONE_DEVICE
    topology: Topology | None = None
    efficiency: Efficiency = ASSUMED_EFFICIENCY
    measured: Measured | None = None
    launch_s: float = GRAPH_LAUNCH_S

    @property
    def basis(self) -> Basis:
        """What every time of this engine is."""
        return Basis.CALIBRATED if self.measured else Basis.ASSUMED

    @property
    def source(self) -> str:
        """Where its times come from, in words."""
        if self.measured:
            return (
                f"roofline calibrated by a decode step of {self.measured.seconds * 1e3:.4g} ms "
                f"(batch {self.measured.batch}, context {self.measured.context_tokens})"
            )
        return (
            f"roofline of {self.shape.name} on {self.device.name}: "
            f"{self.efficiency.memory:.0%} of bandwidth, measured or assumed share of FLOP/s"
        )

    @property
    def stored(self) -> Stored:
        """How weights and cache are kept and shared."""
        return Stored(self.weights, self.kv, self.layout)

    def steps(self) -> RooflineModel:
        """Step times of one replica, its collectives included.

        Raises `ConfigurationError` for a layout the model or the topology cannot have, or a
        measurement that no bandwidth explains.
        """
        plain = RooflineModel(self.shape, self.device, self.stored, self.efficiency)
        costs = self.collectives()
        model = plain if costs is None else replace(plain, communication=costs.seconds)
        if self.measured is None:
            return model
        work = decode(self.measured.batch, self.measured.context_tokens)
        return model.calibrated(work, self.measured.seconds)

    def collectives(self) -> "CollectiveSeconds | None":
        """What the ranks exchange; None for one device, or where no topology is known.

        Raises `ConfigurationError` for a layout the topology cannot have.
        """
        if self.topology is None or self.layout.devices == 1:
            return None
        return CollectiveSeconds(self, self.topology, place(self.topology, self.layout))

    def kv_bytes(self, tokens: int) -> int:
        """Bytes of one request's KV as a whole replica stores (and hands over) it."""
        return kv_bytes_per_sequence_stored(self.shape, tokens, self.layout, self.kv)

    def kv_room_bytes(self, sequences: int, tokens: int) -> int:
        """Room for keys and values on all ranks of a replica together."""
        return self.memory(sequences, tokens).kv_room_bytes * self.layout.tp * self.layout.pp

    def memory(self, sequences: int, tokens: int) -> MemoryPlan:
        """Whether it fits, and how many tokens of KV it holds."""
        return plan_memory(
            MemoryQuestion(
                self.shape, self.device, self.weights, self.kv, sequences, tokens, self.layout
            )
        )

    def context(self) -> dict[str, str | int]:
        """What a report says it was asked about."""
        return {
            "model": self.shape.name,
            "device": self.device.name,
            "weights": self.weights.name,
            "kv": self.kv.name,
            "devices": self.layout.devices,
        }


@dataclass(frozen=True, slots=True)
class CollectivePart:
    """One exchange in a step: how often, how many bytes a rank gives to each, how long each takes.

    `kind`: tensor, expert or stage.
    """

    kind: str
    name: str
    count: int
    size_bytes: float
    each_s: float
    link: str

    @property
    def seconds(self) -> float:
        """All of them in turn, nothing overlapped."""
        return self.count * self.each_s


class CollectiveSeconds:
    """Seconds of collectives in a step, remembered per number of tokens and rows of logits."""

    def __init__(self, setup: Setup, topology: Topology | None, placement: Placement) -> None:
        self._setup = setup
        self._topology = topology
        self._placement = placement
        self._known: dict[tuple[int, int], float] = {}

    def seconds(self, tokens: int, logit_rows: int = 0) -> float:
        """All-reduces of every layer, the logits, expert exchanges, sends between stages."""
        asked = tokens, logit_rows
        if asked not in self._known:
            self._known[asked] = sum(self.parts(tokens, logit_rows).values())
        return self._known[asked]

    def parts(self, tokens: int, logit_rows: int = 0) -> dict[str, float]:
        """Seconds by kind: tensor, expert, stage."""
        found: dict[str, float] = {}
        for part in self.exchanges(tokens, logit_rows):
            found[part.kind] = found.get(part.kind, 0.0) + part.seconds
        return found

    def exchanges(self, tokens: int, logit_rows: int = 0) -> tuple[CollectivePart, ...]:
        """Every exchange that the layout makes necessary."""
        if self._topology is None or tokens == 0:
            return ()
        layout = self._setup.layout
        found: list[CollectivePart] = []
        if layout.tp > 1:
            found += self._tensor(self._topology, tokens, logit_rows)
        if self._exchanging:
            found += self._experts(self._topology, tokens)
        if layout.pp > 1:
            size = tokens * self._setup.shape.hidden * 2.0 / layout.tp
            one = self._placement.boundaries()[0]
            hop = send(self._topology, *one, size, self._setup.launch_s)
            found.append(
                CollectivePart(
                    "stage", "sends between stages", layout.pp - 1, size, hop.seconds, hop.slowest
                )
            )
        return tuple(found)

    @property
    def _exchanging(self) -> bool:
        # Inside a tensor group every rank holds all tokens: each computes its own experts, and the
        # all-reduce that follows adds them up.
        return self._setup.layout.ep > self._setup.layout.tp

    @property
    def _expert_layers(self) -> int:
        return sum(g.count for g in self._setup.shape.groups if isinstance(g.mlp, Experts))

    def _tensor(self, topology: Topology, tokens: int, logit_rows: int) -> Iterator[CollectivePart]:
        shape = self._setup.shape
        step = tensor_step(
            topology,
            self._placement.tensor_groups()[0],
            tokens,
            shape.hidden,
            shape.layers,
            logit_rows=logit_rows,
            vocab=shape.vocab,
            launch_s=self._setup.launch_s,
        )
        reduce, gather = step.all_reduce, step.gather
        count = step.all_reduces - (self._expert_layers if self._exchanging else 0)
        yield CollectivePart(
            "tensor",
            f"all-reduces ({reduce.algorithm})",
            count,
            reduce.size_bytes,
            reduce.seconds,
            reduce.slowest,
        )
        if gather is not None:
            yield CollectivePart(
                "tensor",
                "gather of the logits",
                1,
                gather.size_bytes,
                gather.seconds,
                gather.slowest,
            )

    def _experts(self, topology: Topology, tokens: int) -> Iterator[CollectivePart]:
        shape, layout = self._setup.shape, self._setup.layout
        experts = shape.experts
        if experts is None:
            return
        group = self._placement.expert_groups()[0]
        exchange = expert_exchange(
            topology,
            group,
            # Ranks of one tensor group hold the same tokens: each sends its share of them.
            max(1, tokens // layout.tp),
            experts.top_k,
            shape.hidden,
            launch_s=min(EXPERT_LAUNCH_S, self._setup.launch_s),
        )
        link = f"among {len(group)} expert ranks"
        for name, sent, seconds in (
            ("expert dispatch", exchange.dispatch_bytes, exchange.dispatch_s),
            ("expert combine", exchange.combine_bytes, exchange.combine_s),
        ):
            yield CollectivePart("expert", name, self._expert_layers, sent, seconds, link)


def over_devices(setup: Setup, devices: int) -> Layout:
    """One copy over so many devices: tensor ranks as far as heads divide, stages beyond."""
    tp = math.gcd(devices, setup.shape.heads)
    return Layout(tp=tp, pp=devices // tp)


def devices_needed(setup: Setup, available: int, sequences: int, tokens: int) -> int:
    """Devices that one copy needs to hold one sequence of this length and its weights.

    `sequences` only count once several copies share them. Raises `ConfigurationError` where not
    even all of them are enough.
    """
    for devices in (1 << power for power in range(available.bit_length())):
        if devices > available:
            break
        layout = over_devices(setup, devices)
        if layout.pp > setup.shape.layers:
            continue
        share = max(1, sequences * devices // available)
        if replace(setup, layout=layout).memory(share, tokens).fits:
            return devices
    one = MemoryQuestion(setup.shape, setup.device, setup.weights, setup.kv, 1, tokens)
    enough = fewest_devices(one)
    more = (
        f"{enough.devices} of them hold it ({described(enough)})"
        if enough is not None and enough.devices > available
        else "name more devices, a larger one"
    )
    raise ConfigurationError(
        f"{setup.shape.name} in {setup.weights.name} does not fit {available} x "
        f"{setup.device.name}: {more}, or give a narrower --precision; "
        "`netgain plan memory` says what is short"
    )
