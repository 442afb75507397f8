"""Llama (https://arxiv.org/abs/2302.13971, grouped queries: https://arxiv.org/abs/2305.13245).

Dimensions: T tokens of the step, N rows that need logits, E hidden, V vocabulary, F feed-forward,
H query heads, K key-value heads, D head dim, B blocks, L layers of a KV group, S slots of a block,
J = H + 2 K, 2 = key, value.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from netgain.models.config import ModelConfig
from netgain.models.rope import inverse_frequencies
from netgain.ops.interface import Ops, StepPlan
from netgain.ops.step_inputs import StepInputs
from netgain.ops.weights import DenseWeight, LinearWeight


@dataclass(frozen=True, slots=True)
class LlamaLayer:
    """Weights of one layer; query, key and value are stacked, and so are gate and up."""

    attention_norm_E: torch.Tensor
    qkv: LinearWeight
    attention_out: LinearWeight
    mlp_norm_E: torch.Tensor
    gate_up: LinearWeight
    down: LinearWeight


class Llama:
    """A `CausalLM`. Plain weights over `Ops`: no module tree, whose calls cost time per layer."""

    def __init__(self, config: ModelConfig, ops: Ops, tensors: Mapping[str, torch.Tensor]) -> None:
        """`tensors`: float32, by the names and shapes of `models.parameters`."""
        self.config = config
        self._ops = ops
        self._inverse_frequencies = inverse_frequencies(config.rope, config.head_dim)
        self._embedding = DenseWeight(tensors["embedding.weight"])
        self._head = (
            self._embedding if config.tie_embeddings else DenseWeight(tensors["head.weight"])
        )
        self._norm_E = tensors["norm"]
        self._layers = tuple(_layer(tensors, f"layers.{i}") for i in range(config.layers))

    @torch.inference_mode()
    def forward(self, inputs: StepInputs, records_BL2KSD: Sequence[torch.Tensor]) -> torch.Tensor:
        """See `CausalLM.forward`."""
        ops, eps = self._ops, self.config.rms_eps
        plan = ops.plan(inputs, records_BL2KSD, self._inverse_frequencies)
        x_TE = ops.embedding(inputs.token_ids_T, self._embedding)
        for index, layer in enumerate(self._layers):
            attended = self._attention(plan, index, layer, x_TE)
            x_TE += ops.linear(attended, layer.attention_out)
            normed = ops.rms_norm(x_TE, layer.mlp_norm_E, eps)
            x_TE += ops.linear(ops.silu_mul(ops.linear(normed, layer.gate_up)), layer.down)
        x_NE = x_TE.index_select(0, inputs.logit_rows_N)
        return ops.linear(ops.rms_norm(x_NE, self._norm_E, eps), self._head)

    def _attention(
        self, plan: StepPlan, index: int, layer: LlamaLayer, x_TE: torch.Tensor
    ) -> torch.Tensor:
        heads, kv_heads, dim = self.config.heads, self.config.kv_heads, self.config.head_dim
        normed = self._ops.rms_norm(x_TE, layer.attention_norm_E, self.config.rms_eps)
        # Heads in the order of the stacked weight: H of queries, K of keys, K of values.
        qkv_TJD = self._ops.linear(normed, layer.qkv).view(-1, heads + 2 * kv_heads, dim)
        plan.rope_(qkv_TJD[:, : heads + kv_heads])
        plan.write_kv(0, index, qkv_TJD[:, heads:].view(-1, 2, kv_heads, dim))
        return plan.attention(0, index, qkv_TJD[:, :heads])


def _layer(tensors: Mapping[str, torch.Tensor], prefix: str) -> LlamaLayer:
    def linear(name: str) -> DenseWeight:
        path = f"{prefix}.{name}"
        return DenseWeight(tensors[f"{path}.weight"], tensors.get(f"{path}.bias"))

    return LlamaLayer(
        attention_norm_E=tensors[f"{prefix}.attention_norm"],
        qkv=linear("qkv"),
        attention_out=linear("attention_out"),
        mlp_norm_E=tensors[f"{prefix}.mlp_norm"],
        gate_up=linear("gate_up"),
        down=linear("down"),
    )
