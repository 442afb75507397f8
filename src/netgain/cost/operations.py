"""The operations of one step on one rank: FLOPs, bytes moved, and the precision of each.

Every matrix reads its weights once and its activations at 16 bit; attention reads each context
token's keys and values once per layer. Matrix products count 2 FLOPs per multiply and add.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from netgain.cost.expert_traffic import slowest_rank
from netgain.cost.intensity import distinct_experts
from netgain.cost.kv_bytes import layer_token_bytes, state_bytes
from netgain.cost.layout import ONE_DEVICE, Layout
from netgain.cost.model_shape import (
    DenseMLP,
    Experts,
    GroupedAttention,
    LatentAttention,
    LayerGroup,
    ModelShape,
    Part,
    StateAttention,
    expert_parameters,
)
from netgain.cost.precision import KVFormat, WeightFormat
from netgain.cost.step_work import StepWork
from netgain.cost.weights import bytes_per_parameter
from netgain.hardware.device import Precision

_ACTIVATION_BYTES = 2.0
_STATE_UPDATE_FLOPS = 6  # decay, outer product and read-out: a multiply and an add for each
_TILE_ROWS: Final = (16, 128)
"""Fewest and most rows that a grouped product computes at a time. Source: vLLM fused_moe."""
_ROTATE_LAUNCHES: Final = 1
"""Rotary positions, and keys and values into the cache: one kernel where engines fuse them."""
_ACTIVATE_LAUNCHES: Final = 1
"""The activation between the products of an MLP (and the quantisation of its result)."""
_PLAIN_BITS: Final = 16
_NARROW_BITS: Final = 8
_ROUTING_LAUNCHES: Final = 5
"""Kernels of an expert block besides its two products: choose, sort, align, activate, sum.

Source: vLLM fused_moe.
"""
_QUANTISE_LAUNCHES: Final = 2
"""Before each product of 8 bits or fewer the rows are quantised."""
_UNPACKED_LAUNCHES: Final = 6
"""More kernels for the schedule of unpacked experts: 4 in triton-lang/triton#7369, 14 in
vllm-project/vllm#39714. Chosen between them after published steps of gpt-oss-120b were seen, which
are therefore no independent test of it.
"""


@dataclass(frozen=True, slots=True)
class Operation:
    """One kind of kernel, summed over the layers that run it `launches` times in a step.

    `grouped`: one kernel over the matrices of many experts; `padding_flops` is what it computes on
    empty rows besides. `narrow`: its weights have fewer than 8 bits and are unpacked on the way,
    unless the device multiplies them as they are; that takes `unpacked_launches` more.
    `slowest` is the slowest expert rank's share over the mean one's.
    """

    name: str
    launches: int
    flops: float
    bytes: float
    precision: Precision
    grouped: bool = False
    narrow: bool = False
    padding_flops: float = 0.0
    unpacked_launches: int = 0
    slowest: float = 1.0

    @property
    def intensity(self) -> float:
        """FLOP per byte."""
        return self.flops / self.bytes if self.bytes else 0.0


@dataclass(frozen=True, slots=True)
class Stored:
    """How weights and cache are stored, how ranks share them, and how skewed routing is."""

    weights: WeightFormat
    kv: KVFormat
    layout: Layout = ONE_DEVICE
    expert_skew: float = 0.0


def step_operations(shape: ModelShape, stored: Stored, work: StepWork) -> tuple[Operation, ...]:
    """Operations of a step on the fullest tensor-parallel rank, all pipeline stages in turn.

    Operations of one name are summed over groups of layers. `work` is one data-parallel copy's; the
    experts of a layout whose `ep` spans copies see the tokens of all of them.
    """
    if not work.slices:
        return ()
    found: dict[str, Operation] = {}
    for group in shape.groups:
        for op in _layer(group, shape.hidden, stored, work):
            _add(found, op, group.count)
    for op in _ends(shape, stored, work):
        _add(found, op, 1)
    return tuple(found.values())


def unavoidable_bytes(shape: ModelShape, stored: Stored, work: StepWork) -> float:
    """Bytes a step cannot do without: the weights it meets, keys and values of its context.

    Activations are left out: they may stay on the chip.
    """
    layers = sum(
        group.count * op.bytes
        for group in shape.groups
        for op in _layer(group, shape.hidden, stored, work, activations=0.0)
    )
    return layers + sum(op.bytes for op in _ends(shape, stored, work, activations=0.0))


def _add(found: dict[str, Operation], op: Operation, count: int) -> None:
    before = found.get(op.name)
    launches = (before.launches if before else 0) + count * op.launches
    flops = (before.flops if before else 0.0) + count * op.flops
    moved = (before.bytes if before else 0.0) + count * op.bytes
    padding = (before.padding_flops if before else 0.0) + count * op.padding_flops
    unpacked = (before.unpacked_launches if before else 0) + count * op.unpacked_launches
    found[op.name] = replace(
        op,
        launches=launches,
        flops=flops,
        bytes=moved,
        padding_flops=padding,
        unpacked_launches=unpacked,
    )


def _layer(
    group: LayerGroup,
    hidden: int,
    stored: Stored,
    work: StepWork,
    activations: float = _ACTIVATION_BYTES,
) -> Iterator[Operation]:
    attention = group.attention
    if isinstance(attention, GroupedAttention):
        yield from _grouped(attention, hidden, stored, work, activations)
    elif isinstance(attention, LatentAttention):
        yield from _latent(attention, hidden, stored, work, activations)
    else:
        yield from _state(attention, hidden, stored, work, activations)
    if isinstance(group.mlp, DenseMLP):
        yield from _dense(group.mlp, hidden, stored, work.tokens, activations)
    else:
        yield from _experts(group.mlp, hidden, stored, work.tokens, activations)
    # Two norms with their residual additions: read both, write both.
    moved = 2 * 4 * work.tokens * hidden * activations
    yield Operation("norms", 2, 0.0, moved, Precision.BF16)


def _linear(
    name: str,
    tokens: float,
    inputs: float,
    outputs: float,
    part: Part,
    stored: Stored,
    activations: float,
) -> Operation:
    """A matrix of `inputs` x `outputs` applied to `tokens` rows."""
    weights = inputs * outputs * bytes_per_parameter(part, stored.weights)
    moved = weights + tokens * (inputs + outputs) * activations
    return Operation(
        name, 1, 2.0 * tokens * inputs * outputs, moved, _precision(part, stored.weights)
    )


def _precision(part: Part, weights: WeightFormat) -> Precision:
    narrow = bytes_per_parameter(part, weights) != 2.0
    return weights.computes_in if narrow else Precision.BF16


def _grouped(
    a: GroupedAttention, hidden: int, stored: Stored, work: StepWork, activations: float
) -> Iterator[Operation]:
    heads, kv_heads = stored.layout.heads_per_rank(a), stored.layout.kv_heads_per_rank(a)
    projected = (heads + kv_heads) * a.head_dim + kv_heads * a.value_dim
    tokens = work.tokens
    yield _linear("qkv", tokens, hidden, projected, Part.ATTENTION, stored, activations)
    token_bytes = layer_token_bytes(a, stored.kv, kv_heads)
    # Context is read; new tokens are written too.
    moved = (work.context_tokens(a.window) + tokens) * token_bytes
    moved += tokens * heads * (a.head_dim + a.value_dim) * activations
    flops = 2.0 * heads * (a.head_dim + a.value_dim) * work.pairs(a.window)
    yield Operation("attention", 1 + _ROTATE_LAUNCHES, flops, moved, Precision.BF16)
    yield _attention_out(heads * a.value_dim, hidden, stored, tokens, activations)


def _attention_out(
    width: float, hidden: int, stored: Stored, tokens: int, activations: float
) -> Operation:
    out = _linear("attention out", tokens, width, hidden, Part.ATTENTION, stored, activations)
    # Before the other products the norm or the activation quantises on the way.
    narrow = bytes_per_parameter(Part.ATTENTION, stored.weights) < _PLAIN_BITS / 8
    return replace(out, launches=2) if narrow else out


def _latent(
    a: LatentAttention, hidden: int, stored: Stored, work: StepWork, activations: float
) -> Iterator[Operation]:
    heads, tokens = stored.layout.heads_per_rank(a), work.tokens
    queries = heads * (a.nope_dim + a.rope_dim)
    if a.query_rank is None:
        yield _linear("q", tokens, hidden, queries, Part.ATTENTION, stored, activations)
    else:
        yield _linear("q down", tokens, hidden, a.query_rank, Part.ATTENTION, stored, activations)
        yield _linear("q up", tokens, a.query_rank, queries, Part.ATTENTION, stored, activations)
    latent = a.kv_rank + a.rope_dim
    yield _linear("kv down", tokens, hidden, latent, Part.ATTENTION, stored, activations)
    up = heads * (a.nope_dim + a.value_dim)
    pairs, context = work.pairs(), work.context_tokens()
    # Absorbed: the up-projection is applied to queries and outputs, attention runs on the latent.
    absorbed = 2.0 * tokens * a.kv_rank * up + 2.0 * heads * (2 * a.kv_rank + a.rope_dim) * pairs
    # Expanded: keys and values of the whole context are rebuilt, attention runs per head.
    per_head = a.nope_dim + a.rope_dim + a.value_dim
    expanded = 2.0 * context * a.kv_rank * up + 2.0 * heads * per_head * pairs
    moved = (context + tokens) * layer_token_bytes(a, stored.kv)
    moved += a.kv_rank * up * bytes_per_parameter(Part.ATTENTION, stored.weights)
    moved += tokens * (queries + heads * a.value_dim) * activations
    if expanded < absorbed:
        moved += 2 * context * up * activations
    launches = 2 + _ROTATE_LAUNCHES
    yield Operation("attention", launches, min(absorbed, expanded), moved, Precision.BF16)
    yield _attention_out(heads * a.value_dim, hidden, stored, tokens, activations)


def _state(
    a: StateAttention, hidden: int, stored: Stored, work: StepWork, activations: float
) -> Iterator[Operation]:
    tp, tokens = stored.layout.tp, work.tokens
    outputs = a.parameters / hidden / tp
    yield _linear("state projections", tokens, hidden, outputs, Part.ATTENTION, stored, activations)
    flops = _STATE_UPDATE_FLOPS * a.state_elements / tp * tokens
    moved = 2 * work.sequences * state_bytes(a) / tp
    yield Operation("state update", 1, flops, moved, Precision.BF16)


def _dense(
    mlp: DenseMLP, hidden: int, stored: Stored, tokens: int, activations: float
) -> Iterator[Operation]:
    width = math.ceil(mlp.intermediate / stored.layout.tp)
    up = 2 * width if mlp.gated else width
    yield _linear("mlp up", tokens, hidden, up, Part.MLP, stored, activations)
    down = _linear("mlp down", tokens, width, hidden, Part.MLP, stored, activations)
    yield replace(down, launches=1 + _ACTIVATE_LAUNCHES)


def _experts(
    mlp: Experts, hidden: int, stored: Stored, tokens: int, activations: float
) -> Iterator[Operation]:
    layout = stored.layout
    yield _linear("router", tokens, hidden, mlp.experts, Part.ROUTER, stored, activations)
    copies = layout.dp if layout.ep > layout.tp else 1
    seen = tokens * copies
    met = distinct_experts(mlp.experts, mlp.top_k, seen, stored.expert_skew) / mlp.experts
    one = expert_parameters(mlp, hidden)
    share = 1.0 / layout.expert_shards
    slowest = slowest_rank(layout.ep, mlp.experts, met)
    weights = met * mlp.experts * one * share * bytes_per_parameter(Part.EXPERTS, stored.weights)
    rows = seen * mlp.top_k * share
    inner = (3 if mlp.gated else 2) * mlp.intermediate
    moved = weights + rows * (2 * hidden + inner) * activations
    # An expert's last tile is half empty on average; small batches get small tiles.
    tile = min(_TILE_ROWS[1], max(_TILE_ROWS[0], seen * mlp.top_k / (met * mlp.experts)))
    bits = 8 * bytes_per_parameter(Part.EXPERTS, stored.weights)
    weights_in = _precision(Part.EXPERTS, stored.weights)
    yield Operation(
        "experts",
        2,
        2.0 * rows * one,
        moved,
        weights_in,
        grouped=True,
        narrow=bits < _NARROW_BITS,
        padding_flops=met * mlp.experts * share * tile * one,
        slowest=slowest,
    )
    yield Operation(
        "expert routing",
        _ROUTING_LAUNCHES + (_QUANTISE_LAUNCHES if bits < _PLAIN_BITS else 0),
        0.0,
        0.0,
        weights_in,
        grouped=True,
        narrow=bits < _NARROW_BITS,
        unpacked_launches=_UNPACKED_LAUNCHES if bits < _NARROW_BITS else 0,
    )
    if mlp.shared_intermediate:
        shared = DenseMLP(mlp.shared_intermediate, mlp.gated)
        yield from (
            Operation(f"shared {op.name}", op.launches, op.flops, op.bytes, op.precision)
            for op in _dense(shared, hidden, stored, tokens, activations)
        )


def _ends(
    shape: ModelShape, stored: Stored, work: StepWork, activations: float = _ACTIVATION_BYTES
) -> Iterator[Operation]:
    row = shape.hidden * bytes_per_parameter(Part.EMBEDDING, stored.weights)
    yield Operation("embedding", 1, 0.0, work.tokens * row, Precision.BF16)
    if work.logit_rows:
        vocab = math.ceil(shape.vocab / stored.layout.tp)
        yield _linear(
            "output head", work.logit_rows, shape.hidden, vocab, Part.HEAD, stored, activations
        )
