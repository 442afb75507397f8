"""Bytes of weights: of the whole model, and of the fullest rank of a layout."""

import math
from collections.abc import Mapping
from typing import Final

from netgain.cost.layout import Layout
from netgain.cost.model_shape import (
    Attention,
    DenseMLP,
    Experts,
    LatentAttention,
    ModelShape,
    Part,
    StateAttention,
    attention_parameters,
    expert_parameters,
    mlp_parameters,
)
from netgain.cost.precision import Covers, WeightFormat

_IN_LAYERS: Final = frozenset({Part.ATTENTION, Part.MLP, Part.EXPERTS, Part.SHARED})
_PLAIN_BYTES: Final = 2.0


def rule_of_thumb_bytes(parameters: float, weights: WeightFormat) -> float:
    """Parameters times the round number of bytes: a first lower bound, nothing else counted."""
    return parameters * weights.rule_bytes


def bytes_per_parameter(part: Part, weights: WeightFormat) -> float:
    """Bytes of one parameter of this part: the format's, or 16 bit where it does not apply.

    Norms and routers stay 16 bit in every narrow format. Biases count as their matrices do.
    """
    if weights.stored:
        return _stored_ratio(part, weights)
    if weights.bits > 16:
        return weights.bytes
    covered = {
        Covers.ALL: part not in (Part.NORMS, Part.ROUTER),
        Covers.LINEAR: part in _IN_LAYERS,
        Covers.EXPERTS: part is Part.EXPERTS,
    }[weights.covers]
    return weights.bytes if covered else _PLAIN_BYTES


def weight_bytes_by_part(shape: ModelShape, weights: WeightFormat) -> dict[Part, int]:
    """Bytes of each part of the whole model, scales included."""
    if weights.stored:
        return {stored.part: stored.bytes for stored in weights.stored}
    return _in_bytes(shape.parameters_by_part(), weights)


def weight_bytes(shape: ModelShape, weights: WeightFormat) -> int:
    """Bytes of the whole model, scales included, each tensor once."""
    return sum(weight_bytes_by_part(shape, weights).values())


def rank_weight_bytes_by_part(
    shape: ModelShape, weights: WeightFormat, layout: Layout
) -> dict[Part, int]:
    """Bytes of each part on the fullest rank.

    Heads, MLP width and vocabulary are split over `tp`, rounded up where uneven; norms, routers and
    the down-projections of latent attention are copied; key-value heads are copied past their
    number; experts are spread over `ep`. With pipeline stages the first holds the embedding and the
    last the head, and both hold a tied table; the fullest stage counts.
    """
    layers = dict.fromkeys(Part, 0.0)
    per_stage = layout.layers_per_stage(shape.layers) / shape.layers
    for group in shape.groups:
        count = group.count * per_stage
        layers[Part.ATTENTION] += count * _attention_on_rank(group.attention, shape.hidden, layout)
        layers[Part.NORMS] += count * group.norms
        for part, size in _mlp_on_rank(group.mlp, shape.hidden, layout).items():
            layers[part] += count * size
    table = math.ceil(shape.vocab / layout.tp) * shape.hidden
    first = {Part.EMBEDDING: float(table + shape.positions * shape.hidden)}
    # A tied table is needed again by the last stage, unless that is the first one too.
    separate = not shape.tied or layout.pp > 1
    last = {Part.HEAD: (table if separate else 0) + float(shape.head_bias)}
    ends = [first | last] if layout.pp == 1 else [first, last]
    fullest = max(ends, key=lambda end: sum(_in_bytes(end, weights).values()))
    for part, size in fullest.items():
        layers[part] += size
    layers[Part.NORMS] += shape.final_norm + shape.embedding_norm
    held = _in_bytes({part: size for part, size in layers.items() if size}, weights)
    other = sum(stored.bytes for stored in weights.stored if stored.part is Part.OTHER)
    return held | ({Part.OTHER: other} if other else {})


def rank_weight_bytes(shape: ModelShape, weights: WeightFormat, layout: Layout) -> int:
    """Bytes of the fullest rank."""
    return sum(rank_weight_bytes_by_part(shape, weights, layout).values())


def _in_bytes(parameters: Mapping[Part, float], weights: WeightFormat) -> dict[Part, int]:
    return {
        # A ratio of real bytes to parameters must not round one byte up.
        part: math.ceil(count * bytes_per_parameter(part, weights) - 1e-3)
        for part, count in parameters.items()
        if count
    }


def _stored_ratio(part: Part, weights: WeightFormat) -> float:
    """Bytes per parameter of the file's tensors; a tied head is stored as the embedding."""
    for wanted in (part, Part.EMBEDDING if part is Part.HEAD else part):
        for stored in weights.stored:
            if stored.part is wanted and stored.parameters:
                return stored.bytes / stored.parameters
    return weights.bytes


def _attention_on_rank(attention: Attention, hidden: int, layout: Layout) -> float:
    if layout.tp == 1:
        return attention_parameters(attention, hidden)
    if isinstance(attention, StateAttention):
        return attention.parameters / layout.tp
    heads = layout.heads_per_rank(attention)
    if isinstance(attention, LatentAttention):
        a = attention
        queries = heads * (a.nope_dim + a.rope_dim)
        query = (
            hidden * queries
            if a.query_rank is None
            else hidden * a.query_rank + a.query_rank + a.query_rank * queries
        )
        down = hidden * (a.kv_rank + a.rope_dim) + a.kv_rank
        up = a.kv_rank * heads * (a.nope_dim + a.value_dim)
        return query + down + up + heads * a.value_dim * hidden
    g = attention
    kv_heads = layout.kv_heads_per_rank(g)
    projected = (heads + kv_heads) * g.head_dim + kv_heads * g.value_dim
    biases = (projected if g.qkv_bias else 0) + (hidden if g.output_bias else 0)
    return hidden * projected + heads * g.value_dim * hidden + biases + g.extra


def _mlp_on_rank(mlp: DenseMLP | Experts, hidden: int, layout: Layout) -> dict[Part, float]:
    if layout.tp == 1 and layout.ep == 1:
        return {part: float(size) for part, size in mlp_parameters(mlp, hidden).items()}
    if isinstance(mlp, DenseMLP):
        width = math.ceil(mlp.intermediate / layout.tp)
        narrow = DenseMLP(width, mlp.gated, mlp.bias)
        return {part: float(size) for part, size in mlp_parameters(narrow, hidden).items()}
    slices = max(1, layout.tp // layout.ep)
    one = Experts(
        mlp.experts,
        mlp.top_k,
        math.ceil(mlp.intermediate / slices),
        gated=mlp.gated,
        bias=mlp.bias,
    )
    whole = mlp_parameters(mlp, hidden)
    return {
        Part.EXPERTS: float(layout.experts_per_rank(mlp) * expert_parameters(one, hidden)),
        Part.SHARED: float(math.ceil(whole[Part.SHARED] / layout.tp)),
        Part.ROUTER: float(whole[Part.ROUTER]),
    }
