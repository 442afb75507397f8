"""What a model's forward pass may call.

Dimensions: T tokens of the step, N rows that need logits, E hidden, I/O features in/out,
V vocabulary, H query heads, K key-value heads, D head dim.

A model is written once. One backend runs its `forward` with tensors, every step; another runs it
once with placeholders, records the calls, and replays them. Hence a forward pass may not look at a
value, branch on one, or depend on the number of rows.
"""

import enum
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from netgain.ops.weights import LinearWeight

Value = TypeVar("Value")
"""What flows through a forward pass: a tensor, or the record of one."""


class Activation(enum.Enum):
    """What a gated layer does to its gate."""

    SILU = "silu"
    GELU_TANH = "gelu_tanh"
    """The tanh approximation (https://arxiv.org/abs/1606.08415)."""


@dataclass(frozen=True, slots=True)
class AttentionSpec:
    """One layer's attention; scores are scaled by `head_dim ** -0.5`.

    `group` is an index into `StepInputs.groups`, `layer` an index into that group's record. `heads`
    is a multiple of `kv_heads`: query head h reads KV head `h // (heads / kv_heads)`. With
    `window`, a query sees that many positions, its own included.
    """

    group: int
    layer: int
    heads: int
    kv_heads: int
    head_dim: int
    window: int | None = None


class StepOps(Protocol[Value]):
    """Operations of one step; each row of a result depends on the same row of its inputs only.

    A value that was passed in may not be used again only where that is said.
    """

    def embedding(self, table: LinearWeight) -> Value:
        """Rows of the table `[V, E]` for the step's token ids: `[T, E]`."""

    def rms_norm(self, x_NE: Value, gain_E: NDArray[np.float32], eps: float) -> Value:
        """`x / sqrt(mean(x ** 2) + eps) * gain` per row (https://arxiv.org/abs/1910.07467)."""

    def linear(self, x_NI: Value, weight: LinearWeight, residual_NO: Value | None = None) -> Value:
        """`x @ weight.T + bias`, plus the residual: `[N, O]`.

        The result may be put where the residual was, which is then gone.
        """

    def gated(self, x_NI: Value, gate_up: LinearWeight, activation: Activation) -> Value:
        """`activation(x @ gate.T) * (x @ up.T)` of a weight that stacks gate and up: `[N, O / 2]`.

        The weight was loaded with `MatrixSpec.gated`.
        """

    def attention(self, qkv_TJ: Value, spec: AttentionSpec) -> Value:
        """Causal attention of each slice over its own context: `[T, H * D]`.

        A row holds H query, K key and K value heads of D each. Queries and keys are rotated by
        their position, pairs being `(d, d + D/2)` (NeoX), keys and values stored in their slots,
        and then attended to. `qkv_TJ` is gone afterwards.
        """

    def logit_rows(self, x_TE: Value) -> Value:
        """Those rows that need logits: `[N, E]`."""

    def head(self, x_NE: Value, weight: LinearWeight) -> Value:
        """`linear` of the hidden state: the logits `[N, V]`. If called, then last.

        A backend may put it off, and compute the logits of a few rows at a time or not at all.
        """


class StepModel(Protocol):
    """What a backend needs to know of a model."""

    @property
    def inverse_frequencies(self) -> NDArray[np.float32]:
        """Radians per position of each rotated pair: `[D / 2]`."""

    def forward(self, ops: StepOps[Value]) -> Value:
        """One step's logits `[N, V]`."""
