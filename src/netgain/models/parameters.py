"""Which tensors a model holds in memory and which checkpoint tensors fill them.

The one table that loading, counting and the memory plan derive from. Checkpoint tensors go by their
Hugging Face names; other formats are renamed to these.
"""

import math
from dataclasses import dataclass
from typing import Final

from netgain.models.config import Architecture, ModelConfig


@dataclass(frozen=True, slots=True)
class Piece:
    """One checkpoint tensor and the rows of the parameter it fills.

    `rotary_heads` is the number of heads in the rows of a query or key projection, else 0.
    """

    source: str
    shape: tuple[int, ...]
    first_row: int = 0
    rotary_heads: int = 0


@dataclass(frozen=True, slots=True)
class Parameter:
    """One matrix or vector in memory, filled by its pieces from the first row to the last.

    The bias of matrix `name` is the vector `name.bias`. `gated`: gate rows, then as many up rows.
    """

    name: str
    shape: tuple[int, ...]
    pieces: tuple[Piece, ...]
    gated: bool = False

    @property
    def elements(self) -> int:
        """Number of weights."""
        return math.prod(self.shape)

    @property
    def is_matrix(self) -> bool:
        """Whether a backend keeps it, in a format of its own; vectors are float32 everywhere."""
        return len(self.shape) > 1


def parameters(config: ModelConfig) -> tuple[Parameter, ...]:
    """Every tensor of the model, in loading order."""
    return _LAYOUTS[config.architecture](config)


def parameter_count(config: ModelConfig) -> int:
    """Number of weights, a tied head counted once."""
    return sum(parameter.elements for parameter in parameters(config))


def _llama(config: ModelConfig) -> tuple[Parameter, ...]:
    embedding = (config.vocab, config.hidden)
    found = [_whole("embedding", "model.embed_tokens.weight", embedding)]
    for layer in range(config.layers):
        found += _llama_layer(config, layer)
    found.append(_whole("norm", "model.norm.weight", (config.hidden,)))
    if not config.tie_embeddings:
        found.append(_whole("head", "lm_head.weight", embedding))
    return tuple(found)


def _llama_layer(config: ModelConfig, layer: int) -> list[Parameter]:
    source, target = f"model.layers.{layer}", f"layers.{layer}"
    attention, mlp = f"{source}.self_attn", f"{source}.mlp"
    query_rows, kv_rows = config.heads * config.head_dim, config.kv_heads * config.head_dim
    qkv = (
        (f"{attention}.q_proj", query_rows, config.heads),
        (f"{attention}.k_proj", kv_rows, config.kv_heads),
        (f"{attention}.v_proj", kv_rows, 0),
    )
    out = ((f"{attention}.o_proj", config.hidden, 0),)
    gate_up = ((f"{mlp}.gate_proj", config.ffn, 0), (f"{mlp}.up_proj", config.ffn, 0))
    down = ((f"{mlp}.down_proj", config.hidden, 0),)
    hidden, norm = config.hidden, (config.hidden,)
    return [
        _whole(f"{target}.attention_norm", f"{source}.input_layernorm.weight", norm),
        *_linear(f"{target}.qkv", qkv, hidden, config.attention_bias),
        *_linear(f"{target}.attention_out", out, query_rows, config.attention_bias),
        _whole(f"{target}.mlp_norm", f"{source}.post_attention_layernorm.weight", norm),
        *_linear(f"{target}.gate_up", gate_up, hidden, config.mlp_bias, gated=True),
        *_linear(f"{target}.down", down, config.ffn, config.mlp_bias),
    ]


def _whole(name: str, source: str, shape: tuple[int, ...]) -> Parameter:
    return Parameter(name, shape, (Piece(source, shape),))


def _linear(
    name: str,
    parts: tuple[tuple[str, int, int], ...],
    columns: int,
    bias: bool,
    *,
    gated: bool = False,
) -> list[Parameter]:
    """Weight and bias of projections that are stacked by rows: `(source, rows, rotary heads)`."""
    weights, biases, first_row = [], [], 0
    for source, rows, rotary_heads in parts:
        weights.append(Piece(f"{source}.weight", (rows, columns), first_row, rotary_heads))
        biases.append(Piece(f"{source}.bias", (rows,), first_row, rotary_heads))
        first_row += rows
    found = [Parameter(name, (first_row, columns), tuple(weights), gated)]
    if bias:
        found.append(Parameter(f"{name}.bias", (first_row,), tuple(biases)))
    return found


_LAYOUTS: Final = {Architecture.LLAMA: _llama}
