"""Llama (https://arxiv.org/abs/2302.13971, grouped queries: https://arxiv.org/abs/2305.13245).

Dimensions: T tokens of the step, N rows that need logits, E hidden, V vocabulary, H query heads,
K key-value heads, D head dim.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netgain.models.config import ModelConfig
from netgain.models.rope import inverse_frequencies
from netgain.ops.interface import Activation, AttentionSpec, StepOps, Value
from netgain.ops.weights import LinearWeight


@dataclass(frozen=True, slots=True)
class LlamaLayer:
    """Weights of one layer; query, key and value are stacked, and so are gate and up."""

    attention_norm_E: NDArray[np.float32]
    qkv: LinearWeight
    attention: AttentionSpec
    attention_out: LinearWeight
    mlp_norm_E: NDArray[np.float32]
    gate_up: LinearWeight
    down: LinearWeight


class Llama:
    """A `CausalLM`. Plain weights, no module tree, whose calls cost time per layer."""

    def __init__(
        self,
        config: ModelConfig,
        matrices: Mapping[str, LinearWeight],
        vectors: Mapping[str, NDArray[np.float32]],
    ) -> None:
        """`matrices`, `vectors`: by the names and shapes of `models.parameters`."""
        self.config = config
        self.inverse_frequencies = inverse_frequencies(config.rope, config.head_dim)
        self._embedding = matrices["embedding"]
        self._head = self._embedding if config.tie_embeddings else matrices["head"]
        self._norm_E = vectors["norm"]
        self._layers = tuple(
            LlamaLayer(
                attention_norm_E=vectors[f"layers.{index}.attention_norm"],
                qkv=matrices[f"layers.{index}.qkv"],
                attention=AttentionSpec(0, index, config.heads, config.kv_heads, config.head_dim),
                attention_out=matrices[f"layers.{index}.attention_out"],
                mlp_norm_E=vectors[f"layers.{index}.mlp_norm"],
                gate_up=matrices[f"layers.{index}.gate_up"],
                down=matrices[f"layers.{index}.down"],
            )
            for index in range(config.layers)
        )

    def forward(self, ops: StepOps[Value]) -> Value:
        """See `StepModel.forward`."""
        eps = self.config.rms_eps
        x = ops.embedding(self._embedding)
        for layer in self._layers:
            normed = ops.rms_norm(x, layer.attention_norm_E, eps)
            attended = ops.attention(ops.linear(normed, layer.qkv), layer.attention)
            if layer is self._layers[-1]:
                # Every token's keys and values are written; from here on a row is on its own.
                x, attended = ops.logit_rows(x), ops.logit_rows(attended)
            x = ops.linear(attended, layer.attention_out, x)
            normed = ops.rms_norm(x, layer.mlp_norm_E, eps)
            x = ops.linear(ops.gated(normed, layer.gate_up, Activation.SILU), layer.down, x)
        return ops.head(ops.rms_norm(x, self._norm_E, eps), self._head)
