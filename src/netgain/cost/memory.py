"""Does it fit: the memory of one rank, what is left for keys and values, and what binds.

    memory = weights + KV cache + activations + runtime reserve + margin

Capacity tokens = floor((utilisation x memory - weights - activations - reserve) / bytes per token).
"""

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from netgain.cost.kv_bytes import kv_bytes_per_sequence, kv_bytes_per_token_on_rank, state_bytes
from netgain.cost.layout import ONE_DEVICE, Layout
from netgain.cost.model_shape import (
    DenseMLP,
    GroupedAttention,
    LatentAttention,
    LayerGroup,
    ModelShape,
    StateAttention,
)
from netgain.cost.precision import KVFormat, WeightFormat
from netgain.cost.weights import rank_weight_bytes, weight_bytes
from netgain.errors import ConfigurationError
from netgain.hardware.device import Device, Family

GIB: Final = 1 << 30
MIB: Final = 1 << 20
LARGE_DEVICE_RESERVE_BYTES: Final = int(3.5 * GIB)
SMALL_DEVICE_RESERVE_BYTES: Final = int(1.6 * GIB)
HOST_RESERVE_BYTES: Final = GIB
COLLECTIVES_RESERVE_BYTES: Final = 392 * MIB
_SMALL_DEVICE_BYTES: Final = 32 * GIB
_ACTIVATION_BYTES: Final = 2
_LOGIT_BYTES: Final = 4


def _positive(name: str, value: int) -> None:
    if value < 1:
        raise ConfigurationError(f"{name} is {value}: give 1 or more")


class Knob(StrEnum):
    """The four settings that bound how many sequences run together."""

    MAX_NUM_SEQS = "max sequences"
    MAX_MODEL_LEN = "max model length"
    MAX_BATCHED_TOKENS = "max batched tokens"
    UTILISATION = "memory utilisation"


@dataclass(frozen=True, slots=True)
class Serving:
    """The four knobs and the paging: how an engine would be started.

    `max_model_len` None: as long as the sequences that are wanted.
    """

    max_num_seqs: int = 256
    max_model_len: int | None = None
    max_batched_tokens: int = 8192
    utilisation: float = 0.9
    block_tokens: int = 16

    def __post_init__(self) -> None:
        """Raises `ConfigurationError` for what no engine could be started with."""
        for name in ("max_num_seqs", "max_batched_tokens", "block_tokens"):
            _positive(name.replace("_", "-"), getattr(self, name))
        if self.max_model_len is not None:
            _positive("max-model-len", self.max_model_len)
        if not 0.0 < self.utilisation <= 1.0:
            raise ConfigurationError(
                f"utilisation is {self.utilisation:g}: give a share above 0 and up to 1"
            )


DEFAULT_SERVING: Final = Serving()


@dataclass(frozen=True, slots=True)
class MemoryQuestion:
    """A model, how it is stored and laid out, on what, and the traffic it must hold.

    `sequences` of `tokens` each are wanted at once.
    """

    shape: ModelShape
    device: Device
    weights: WeightFormat
    kv: KVFormat
    sequences: int
    tokens: int
    layout: Layout = ONE_DEVICE
    serving: Serving = DEFAULT_SERVING

    def __post_init__(self) -> None:
        """Raises `ConfigurationError` for empty traffic or a layout this model cannot have."""
        _positive("batch", self.sequences)
        _positive("kv-length", self.tokens)
        self.layout.check(self.shape)

    @property
    def max_model_len(self) -> int:
        """The longest sequence the engine admits."""
        return self.serving.max_model_len or self.tokens


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Bytes of the fullest rank, by part; all but the device's own size are computed.

    `kv_room_bytes` is what is left for keys and values (0 where nothing is), `shortfall_bytes` how
    much is missing to hold what is wanted: the traffic, and one sequence of the longest length.
    """

    memory_bytes: int
    budget_bytes: int
    weights_bytes: int
    activation_bytes: int
    reserve_bytes: int
    kv_room_bytes: int
    kv_wanted_bytes: int
    kv_longest_bytes: int
    kv_token_bytes: int
    capacity_tokens: int
    capacity_sequences: int
    longest_sequences: int
    shortfall_bytes: int
    starts: bool
    binding: Knob
    runs: int

    @property
    def fits(self) -> bool:
        """Whether memory holds all sequences at once; `runs` says whether the knobs let it."""
        return self.shortfall_bytes == 0


def plan_memory(question: MemoryQuestion) -> MemoryPlan:
    """Counts the fullest rank. Data-parallel copies share the sequences."""
    q, shape, layout, serving = question, question.shape, question.layout, question.serving
    memory = int(q.device.memory_bytes.value)
    budget = math.floor(serving.utilisation * memory)
    weights = rank_weight_bytes(shape, q.weights, layout)
    activation = activation_bytes(shape, layout, serving.max_batched_tokens, serving.max_num_seqs)
    reserve = reserve_bytes(q.device, layout)
    room = budget - weights - activation - reserve
    here = math.ceil(q.sequences / layout.dp)
    one = _sequence_bytes(q, q.tokens)
    longest = _sequence_bytes(q, q.max_model_len)
    starts = room >= longest and serving.max_batched_tokens >= min(here, serving.max_num_seqs)
    wanted = max(here * one, longest)
    by_memory = max(0, room // one) if one else here
    runs, binding = _binding(q, by_memory)
    return MemoryPlan(
        memory_bytes=memory,
        budget_bytes=budget,
        weights_bytes=weights,
        activation_bytes=activation,
        reserve_bytes=reserve,
        kv_room_bytes=max(0, room),
        kv_wanted_bytes=here * one,
        kv_longest_bytes=longest,
        kv_token_bytes=kv_bytes_per_token_on_rank(shape, layout, q.kv),
        capacity_tokens=capacity_tokens(q, room),
        capacity_sequences=by_memory * layout.dp,
        longest_sequences=max(0, room // longest) * layout.dp if longest else q.sequences,
        shortfall_bytes=max(0, wanted - room),
        starts=starts,
        binding=binding,
        runs=runs,
    )


def capacity_tokens(question: MemoryQuestion, room_bytes: int) -> int:
    """Tokens of context one rank holds, in whole blocks, for sequences of the wanted length."""
    one = _sequence_bytes(question, question.tokens)
    if room_bytes <= 0 or not one:
        return 0
    block = question.serving.block_tokens
    rounded = math.ceil(question.tokens / block) * block
    # By the sequence, so that windows and states count for what they are; part of one more sequence
    # by the block.
    whole = room_bytes // one
    left = room_bytes - whole * one
    token = kv_bytes_per_token_on_rank(question.shape, question.layout, question.kv)
    constant = _constant_bytes(question)
    part = max(0, left - constant) // (token * block) * block if token else 0
    return int(whole * rounded + min(part, rounded))


def activation_bytes(shape: ModelShape, layout: Layout, batched_tokens: int, sequences: int) -> int:
    """Peak of one step's temporaries on a rank: assumed, not measured.

    Per token, 16 bit: the residual and its norm, and the widest of a layer's intermediate values;
    for each sequence one row of 32-bit logits, held twice while sampling.
    """
    widest = max(_widest(group, layout) for group in shape.groups)
    per_token = (2 * shape.hidden + widest) * _ACTIVATION_BYTES
    logits = 2 * min(sequences, batched_tokens) * math.ceil(shape.vocab / layout.tp) * _LOGIT_BYTES
    return batched_tokens * per_token + logits


def reserve_bytes(device: Device, layout: Layout) -> int:
    """All that `reserve_parts` names."""
    return sum(reserve_parts(device, layout))


def reserve_parts(device: Device, layout: Layout) -> tuple[int, int]:
    """Bytes of runtime context, captured graphs and workspaces, and of collective buffers: assumed.

    Sources: aiconfigurator (3.5 GiB and 342-392 MiB for collectives); LLMServingSim (1.6 GiB
    missing on a 24 GB card). SRAM machines keep no runtime on the chip.
    """
    if device.family is Family.SRAM:
        return 0, 0
    if device.family is Family.CPU:
        return HOST_RESERVE_BYTES, 0
    large = device.memory_bytes.value >= _SMALL_DEVICE_BYTES
    context = LARGE_DEVICE_RESERVE_BYTES if large else SMALL_DEVICE_RESERVE_BYTES
    several = layout.tp * layout.pp * layout.ep > 1
    return context, COLLECTIVES_RESERVE_BYTES if several else 0


def largest_model_len(question: MemoryQuestion) -> int:
    """The longest `max_model_len` one sequence of which fits, in whole blocks; 0 if none does."""
    room = plan_memory(question).kv_room_bytes
    block = question.serving.block_tokens
    low, high = 0, question.shape.max_positions // block + 1
    while high - low > 1:
        middle = (low + high) // 2
        if _sequence_bytes(question, middle * block) <= room:
            low = middle
        else:
            high = middle
    return low * block


def chips_for_one_model(question: MemoryQuestion) -> int:
    """Chips that weights and the wanted keys and values fill when spread evenly, nothing else kept.

    For SRAM machines, over which a compiler lays a model in its own way.
    """
    kv = question.sequences * kv_bytes_per_sequence(question.shape, question.tokens, question.kv)
    whole = weight_bytes(question.shape, question.weights) + kv
    return math.ceil(whole / question.device.memory_bytes.value)


def with_serving(question: MemoryQuestion, serving: Serving) -> MemoryQuestion:
    """The same question with other knobs."""
    return replace(question, serving=serving)


def _binding(q: MemoryQuestion, by_memory: int) -> tuple[int, Knob]:
    """How many of the wanted sequences run at once on all copies, and what keeps more out."""
    here = math.ceil(q.sequences / q.layout.dp)
    if q.tokens > q.max_model_len:
        return 0, Knob.MAX_MODEL_LEN
    limits = {
        Knob.UTILISATION: by_memory,
        Knob.MAX_NUM_SEQS: q.serving.max_num_seqs,
        Knob.MAX_BATCHED_TOKENS: q.serving.max_batched_tokens,
    }
    knob = min(limits, key=lambda name: limits[name])
    return min(q.sequences, min(here, limits[knob]) * q.layout.dp), knob


def _sequence_bytes(q: MemoryQuestion, tokens: int) -> int:
    return kv_bytes_per_sequence(
        q.shape, tokens, q.kv, block_tokens=q.serving.block_tokens, layout=q.layout
    )


def _constant_bytes(q: MemoryQuestion) -> int:
    share = q.layout.layers_per_stage(q.shape.layers) / q.shape.layers / q.layout.tp
    return math.ceil(
        sum(
            group.count * state_bytes(group.attention) * share
            for group in q.shape.groups
            if isinstance(group.attention, StateAttention)
        )
    )


def _widest(group: LayerGroup, layout: Layout) -> int:
    attention, mlp = group.attention, group.mlp
    projected = 0
    if isinstance(attention, GroupedAttention):
        heads, kv_heads = layout.heads_per_rank(attention), layout.kv_heads_per_rank(attention)
        projected = (heads + kv_heads) * attention.head_dim + kv_heads * attention.value_dim
        projected += heads * attention.value_dim
    elif isinstance(attention, LatentAttention):
        heads = layout.heads_per_rank(attention)
        projected = heads * (attention.nope_dim + attention.rope_dim + 2 * attention.value_dim)
        projected += attention.kv_rank + attention.rope_dim + (attention.query_rank or 0)
    if isinstance(mlp, DenseMLP):
        fed = (3 if mlp.gated else 2) * math.ceil(mlp.intermediate / layout.tp)
    else:
        slices = max(1, layout.tp // layout.ep)
        fed = mlp.top_k * (3 if mlp.gated else 2) * math.ceil(mlp.intermediate / slices)
        fed += 3 * math.ceil(mlp.shared_intermediate / layout.tp)
    return max(projected, fed)
