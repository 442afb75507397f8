"""What a model needs from a backend.

Dimensions: T tokens of the step, N rows, E hidden, I/O features in/out, V vocabulary,
F feed-forward, H query heads, K key-value heads, D head dim, B blocks, L layers of a KV group,
S slots of a block, 2 = key, value (or gate, up).

Models call these and nothing else, so that a backend may keep weights, plans and KV in any form.
"""

from collections.abc import Sequence
from typing import Protocol

import torch

from netgain.ops.step_inputs import StepInputs
from netgain.ops.weights import LinearWeight


class StepPlan(Protocol):
    """What a backend derives from a step's inputs once, for all layers.

    `group` is an index into `StepInputs.groups`, `layer` an index into that group's record.
    """

    def rope_(self, x_THD: torch.Tensor) -> None:
        """Rotates heads in place by their token's position; pairs are `(d, d + D/2)` (NeoX)."""

    def write_kv(self, group: int, layer: int, kv_T2KD: torch.Tensor) -> None:
        """Stores each token's key and value in its slot."""

    def attention(self, group: int, layer: int, q_THD: torch.Tensor) -> torch.Tensor:
        """Causal attention of each slice over its own context, scaled by `D ** -0.5`.

        H is a multiple of K: query head h reads KV head `h // (H / K)`. Returns `[T, H * D]`.
        """


class Ops(Protocol):
    """Operations over tensors; each row of a result depends on the same row of the input only."""

    def plan(
        self,
        inputs: StepInputs,
        records_BL2KSD: Sequence[torch.Tensor],
        inverse_frequencies: torch.Tensor,
    ) -> StepPlan:
        """Prepares one step over the KV records of each group.

        `inverse_frequencies`: float32 `[D / 2]`, radians per position. Every record must hold
        finite numbers from the start (zeros do): padded slots are read with weight 0.
        """

    def embedding(self, token_ids_T: torch.Tensor, table: LinearWeight) -> torch.Tensor:
        """Rows of the table `[V, E]`: `[T, E]`."""

    def rms_norm(self, x_NE: torch.Tensor, gain_E: torch.Tensor, eps: float) -> torch.Tensor:
        """`x / sqrt(mean(x ** 2) + eps) * gain` per row (https://arxiv.org/abs/1910.07467)."""

    def linear(self, x_NI: torch.Tensor, weight: LinearWeight) -> torch.Tensor:
        """`x @ weight.T + bias`: `[N, O]`."""

    def silu_mul(self, gate_up_NF: torch.Tensor) -> torch.Tensor:
        """`silu(gate) * up` of rows that hold gate, then up (2 F wide): `[N, F]`."""
