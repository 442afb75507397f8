"""The engine that a plan is about: a model, stored in one way, on devices joined in one way."""

import math
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
"""A collective inside a captured graph or a custom kernel: assumed, no launch from the host."""


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
        placement = place(self.topology, self.layout) if self.topology else None
        plain = RooflineModel(self.shape, self.device, self.stored, self.efficiency)
        if placement is None or self.layout.devices == 1:
            model = plain
        else:
            costs = CollectiveSeconds(self, self.topology, placement)
            model = replace(plain, communication=costs.seconds)
        if self.measured is None:
            return model
        work = decode(self.measured.batch, self.measured.context_tokens)
        return model.calibrated(work, self.measured.seconds)

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


class CollectiveSeconds:
    """Seconds of collectives in a step of so many tokens, remembered per number of tokens."""

    def __init__(self, setup: Setup, topology: Topology | None, placement: Placement) -> None:
        self._setup = setup
        self._topology = topology
        self._placement = placement
        self._known: dict[int, float] = {}

    def seconds(self, tokens: int) -> float:
        """All-reduces of every layer, expert exchanges, and sends between stages."""
        if tokens not in self._known:
            self._known[tokens] = sum(self.parts(tokens).values())
        return self._known[tokens]

    def parts(self, tokens: int) -> dict[str, float]:
        """Seconds by kind: tensor, expert, stage."""
        if self._topology is None or tokens == 0:
            return {}
        shape, layout = self._setup.shape, self._setup.layout
        found = {"tensor": 0.0, "expert": 0.0, "stage": 0.0}
        if layout.tp > 1:
            group = self._placement.tensor_groups()[0]
            found["tensor"] = tensor_step(
                self._topology,
                group,
                tokens,
                shape.hidden,
                shape.layers,
                launch_s=self._setup.launch_s,
            ).seconds
        if layout.ep > 1:
            found["expert"] = self._experts(self._topology, tokens)
        if layout.pp > 1:
            size = tokens * shape.hidden * 2.0
            one = self._placement.boundaries()[0]
            hop = send(self._topology, *one, size / layout.tp, self._setup.launch_s)
            found["stage"] = (layout.pp - 1) * hop.seconds
        return found

    def _experts(self, topology: Topology, tokens: int) -> float:
        shape, layout = self._setup.shape, self._setup.layout
        seconds = 0.0
        for layers in shape.groups:
            if not isinstance(layers.mlp, Experts):
                continue
            exchange = expert_exchange(
                topology,
                self._placement.expert_groups()[0],
                # Ranks of one tensor group hold the same tokens: each sends its share of them.
                max(1, tokens // layout.tp),
                layers.mlp.top_k,
                shape.hidden,
                launch_s=min(EXPERT_LAUNCH_S, self._setup.launch_s),
            )
            seconds += layers.count * exchange.seconds
        return seconds


def devices_needed(setup: Setup, available: int, sequences: int, tokens: int) -> int:
    """Devices that one copy needs to hold one sequence of this length and its weights.

    `sequences` only count once several copies share them. Raises `ConfigurationError` where not
    even all of them are enough.
    """
    for devices in (1 << power for power in range(available.bit_length())):
        if devices > available:
            break
        tp = math.gcd(devices, setup.shape.heads)
        layout = Layout(tp=tp, pp=devices // tp)
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
