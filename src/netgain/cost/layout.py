"""How one model is laid out over devices, and what part of each layer one rank holds."""

import math
from dataclasses import dataclass
from typing import Final

from netgain.cost.model_shape import (
    Attention,
    Experts,
    GroupedAttention,
    LatentAttention,
    ModelShape,
    StateAttention,
)
from netgain.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Layout:
    """Ranks of tensor, pipeline, data and expert parallelism.

    `tp * pp` ranks hold one copy of the model. `dp` copies of the attention serve different
    sequences. `ep` ranks share the experts; beyond `tp` it spans the data-parallel copies, and
    then the experts are stored once for all of them.
    """

    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1

    def __post_init__(self) -> None:
        """Raises `ConfigurationError` for sizes below one, or an `ep` that fits no grid."""
        for name in ("tp", "pp", "dp", "ep"):
            size = getattr(self, name)
            if size < 1:
                raise ConfigurationError(f"{name} is {size}: give 1 or more")
        if self.ep > self.tp * self.dp:
            raise ConfigurationError(
                f"ep {self.ep} needs that many ranks in a stage: tp x dp is {self.tp * self.dp}; "
                f"raise --dp or --tp, or lower --ep to {self.tp * self.dp}"
            )
        if self.ep % self.tp and self.tp % self.ep:
            raise ConfigurationError(
                f"ep {self.ep} does not line up with tp {self.tp}: one must divide the other"
            )

    @property
    def devices(self) -> int:
        """Devices in all."""
        return self.tp * self.pp * self.dp

    @property
    def expert_shards(self) -> int:
        """Over how many ranks one layer's experts are spread."""
        return max(self.tp, self.ep)

    def check(self, shape: ModelShape) -> None:
        """Raises `ConfigurationError` where this model cannot be laid out so, naming what can."""
        heads = min(
            (
                group.attention.heads
                for group in shape.groups
                if not isinstance(group.attention, StateAttention)
            ),
            default=self.tp,
        )
        if self.tp > heads:
            raise ConfigurationError(
                f"tp {self.tp} cannot be laid out: {shape.name} has {heads} attention heads; "
                f"use --tp {_largest_divisor(heads, self.tp)} and pipeline stages or replicas for "
                "the other devices"
            )
        if self.pp > shape.layers:
            raise ConfigurationError(
                f"pp {self.pp} cannot be laid out: {shape.name} has {shape.layers} layers; use "
                f"--pp {shape.layers} or less"
            )
        if self.ep > 1:
            experts = shape.experts
            if experts is None:
                raise ConfigurationError(f"ep {self.ep}: {shape.name} has no experts; use --ep 1")
            if self.ep > experts.experts:
                raise ConfigurationError(
                    f"ep {self.ep}: {shape.name} has {experts.experts} experts per layer; use "
                    f"--ep {experts.experts} or less"
                )

    def kv_heads_per_rank(self, attention: GroupedAttention) -> int:
        """Most key-value heads a rank holds: max(1, kv_heads / tp), rounded up where uneven."""
        return max(1, math.ceil(attention.kv_heads / self.tp))

    def heads_per_rank(self, attention: GroupedAttention | LatentAttention) -> int:
        """Most query heads a rank computes.

        Heads of one key-value head stay together unless there are more ranks than those; a rank
        that holds more key-value heads than another has more query heads too.
        """
        if isinstance(attention, LatentAttention):
            return math.ceil(attention.heads / self.tp)
        per_kv_head = attention.heads // attention.kv_heads
        if self.tp <= attention.kv_heads:
            return self.kv_heads_per_rank(attention) * per_kv_head
        return math.ceil(per_kv_head / (self.tp // attention.kv_heads))

    def kv_heads_stored(self, attention: GroupedAttention) -> int:
        """Key-value heads stored by all ranks of a tensor-parallel group together."""
        return max(attention.kv_heads, self.tp)

    def layers_per_stage(self, layers: int) -> int:
        """Most layers a pipeline stage holds."""
        return math.ceil(layers / self.pp)

    def experts_per_rank(self, experts: Experts) -> int:
        """Most whole experts a rank holds; tensor parallelism without `ep` slices all of them."""
        return math.ceil(experts.experts / self.ep)

    def is_even(self, attention: Attention) -> bool:
        """Whether every rank gets the same share of the heads."""
        if isinstance(attention, StateAttention):
            return True
        if attention.heads % self.tp:
            return False
        if isinstance(attention, LatentAttention):
            return True
        return attention.kv_heads % self.tp == 0 or self.tp % attention.kv_heads == 0


ONE_DEVICE: Final = Layout()
"""No parallelism at all."""


def _largest_divisor(size: int, at_most: int) -> int:
    return max(n for n in range(1, min(at_most, size + 1)) if size % n == 0)
