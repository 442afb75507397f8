"""What a model is made of, as far as memory and time depend on it: layers, heads, experts, sizes.

Parameters are counted by part, exactly, biases and norms included. Sources: the model definitions
of Hugging Face transformers for each architecture, and the papers named at each class.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from netgain.errors import ModelError


@dataclass(frozen=True, slots=True)
class GroupedAttention:
    """Multi-head, grouped-query or multi-query attention, over all positions or a window.

    `window` None is full attention. `extra` counts parameters beside the four matrices and their
    biases: query/key norms, sinks.
    """

    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int
    window: int | None = None
    qkv_bias: bool = False
    output_bias: bool = False
    extra: int = 0


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Multi-head latent attention: one compressed key-value vector for all heads.

    The cache holds `kv_rank + rope_dim` elements per token and layer. `query_rank` None means
    queries are not compressed. Source: DeepSeek-V2, arXiv 2405.04434.
    """

    heads: int
    query_rank: int | None
    kv_rank: int
    rope_dim: int
    nope_dim: int
    value_dim: int


@dataclass(frozen=True, slots=True)
class StateAttention:
    """A layer with a state of constant size per sequence: linear attention, SSM, convolution.

    `state_elements` and `conv_elements` are kept per sequence; `parameters` are its matrices.
    """

    state_elements: int
    conv_elements: int
    parameters: int


Attention: TypeAlias = GroupedAttention | LatentAttention | StateAttention


@dataclass(frozen=True, slots=True)
class DenseMLP:
    """Two matrices, or three where `gated`."""

    intermediate: int
    gated: bool = True
    bias: bool = False


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture of experts: `top_k` of `experts` per token, and `shared` experts for all tokens.

    `shared_intermediate` is the width of the shared experts together.
    """

    experts: int
    top_k: int
    intermediate: int
    shared_intermediate: int = 0
    gated: bool = True
    bias: bool = False
    router_bias: bool = False
    shared_gate: bool = False


MLP: TypeAlias = DenseMLP | Experts


@dataclass(frozen=True, slots=True)
class LayerGroup:
    """`count` layers of one kind; `norms` is parameters of norms per layer."""

    count: int
    attention: Attention
    mlp: MLP
    norms: int


class Part(StrEnum):
    """Where parameters sit."""

    EMBEDDING = "embedding"
    HEAD = "output head"
    ATTENTION = "attention"
    MLP = "dense MLP"
    EXPERTS = "experts"
    SHARED = "shared experts"
    ROUTER = "router"
    NORMS = "norms"
    OTHER = "other"
    """Tensors of a file that belong to no part of the language model: encoders of other media."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A decoder-only model's sizes.

    `positions` counts rows of a learned position table (0 for rotary and the like).
    `head_bias`/`embedding_norm` are parameters. `native_weights` is the weight format the model is
    published in. `max_positions` is the longest context. `notes` say what was not counted or had
    to be guessed. `source` is where the sizes come from.
    """

    name: str
    hidden: int
    vocab: int
    groups: tuple[LayerGroup, ...]
    tied: bool
    final_norm: int
    max_positions: int
    native_weights: str = "bf16"
    positions: int = 0
    embedding_norm: int = 0
    head_bias: int = 0
    source: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raises `ModelError` for sizes that fit no model."""
        for what, size in (("hidden", self.hidden), ("vocab", self.vocab)):
            _require(size > 0, f"{self.name}: {what} must be positive, not {size}")
        _require(bool(self.groups), f"{self.name}: a model needs layers")
        for group in self.groups:
            _check(self.name, group)

    @property
    def layers(self) -> int:
        """Number of layers."""
        return sum(group.count for group in self.groups)

    @property
    def heads(self) -> int:
        """Query heads of the layers that have heads: the most of any."""
        return max(
            (g.attention.heads for g in self.groups if not isinstance(g.attention, StateAttention)),
            default=1,
        )

    @property
    def kv_heads(self) -> int:
        """Key-value heads of a layer: the most of any; 1 for latent attention."""
        return max(
            (
                1 if isinstance(g.attention, LatentAttention) else g.attention.kv_heads
                for g in self.groups
                if not isinstance(g.attention, StateAttention)
            ),
            default=1,
        )

    @property
    def experts(self) -> Experts | None:
        """The experts of the first layer that has some."""
        return next((g.mlp for g in self.groups if isinstance(g.mlp, Experts)), None)

    @property
    def is_latent(self) -> bool:
        """Whether the cache is latent: every tensor-parallel rank holds a copy."""
        return any(isinstance(group.attention, LatentAttention) for group in self.groups)

    def parameters_by_part(self) -> dict[Part, int]:
        """Stored parameters of each part; tied embeddings are counted once."""
        found = dict.fromkeys(Part, 0)
        found[Part.EMBEDDING] = (self.vocab + self.positions) * self.hidden
        if not self.tied:
            found[Part.HEAD] = self.vocab * self.hidden
        found[Part.HEAD] += self.head_bias
        found[Part.NORMS] = self.final_norm + self.embedding_norm
        for group in self.groups:
            found[Part.ATTENTION] += group.count * attention_parameters(
                group.attention, self.hidden
            )
            found[Part.NORMS] += group.count * group.norms
            for part, count in mlp_parameters(group.mlp, self.hidden).items():
                found[part] += group.count * count
        return {part: count for part, count in found.items() if count}

    @property
    def parameters(self) -> int:
        """All stored parameters."""
        return sum(self.parameters_by_part().values())

    @property
    def active_parameters(self) -> int:
        """Parameters that one token meets: `top_k` experts; the embedding table is counted.

        Publishers differ: Mixtral and Qwen count the table, gpt-oss and DeepSeek do not
        (`multiplied_parameters`).
        """
        idle = 0
        for group in self.groups:
            if isinstance(group.mlp, Experts):
                one = expert_parameters(group.mlp, self.hidden)
                idle += group.count * (group.mlp.experts - group.mlp.top_k) * one
        return self.parameters - idle

    @property
    def multiplied_parameters(self) -> int:
        """Active parameters that are multiplied: an untied embedding table is only looked up."""
        table = (self.vocab + self.positions) * self.hidden
        return self.active_parameters - (self.positions * self.hidden if self.tied else table)


def attention_parameters(attention: Attention, hidden: int) -> int:
    """Parameters of one layer's attention, norms inside it included."""
    if isinstance(attention, StateAttention):
        return attention.parameters
    if isinstance(attention, LatentAttention):
        a = attention
        queries = a.heads * (a.nope_dim + a.rope_dim)
        query = (
            hidden * queries
            if a.query_rank is None
            else hidden * a.query_rank + a.query_rank + a.query_rank * queries
        )
        down = hidden * (a.kv_rank + a.rope_dim) + a.kv_rank
        up = a.kv_rank * a.heads * (a.nope_dim + a.value_dim)
        return query + down + up + a.heads * a.value_dim * hidden
    g = attention
    projected = (g.heads + g.kv_heads) * g.head_dim + g.kv_heads * g.value_dim
    matrices = hidden * projected + g.heads * g.value_dim * hidden
    biases = (projected if g.qkv_bias else 0) + (hidden if g.output_bias else 0)
    return matrices + biases + g.extra


def expert_parameters(mlp: Experts, hidden: int) -> int:
    """Parameters of one routed expert."""
    matrices = 3 if mlp.gated else 2
    bias = ((matrices - 1) * mlp.intermediate + hidden) if mlp.bias else 0
    return matrices * hidden * mlp.intermediate + bias


def mlp_parameters(mlp: MLP, hidden: int) -> dict[Part, int]:
    """Parameters of one layer's MLP by part."""
    if isinstance(mlp, DenseMLP):
        matrices = 3 if mlp.gated else 2
        bias = ((matrices - 1) * mlp.intermediate + hidden) if mlp.bias else 0
        return {Part.MLP: matrices * hidden * mlp.intermediate + bias}
    router = mlp.experts * hidden + (mlp.experts if mlp.router_bias else 0)
    shared = (3 if mlp.gated else 2) * hidden * mlp.shared_intermediate
    return {
        Part.EXPERTS: mlp.experts * expert_parameters(mlp, hidden),
        Part.SHARED: shared,
        Part.ROUTER: router + (hidden if mlp.shared_gate else 0),
    }


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ModelError(message)


def _check(name: str, group: LayerGroup) -> None:
    _require(group.count > 0, f"{name}: a group of layers cannot be empty")
    attention = group.attention
    if isinstance(attention, GroupedAttention):
        sizes = (attention.heads, attention.kv_heads, attention.head_dim, attention.value_dim)
        _require(min(sizes) > 0, f"{name}: heads and head sizes must be positive")
        _require(
            attention.heads % attention.kv_heads == 0,
            f"{name}: {attention.heads} heads cannot share {attention.kv_heads} key-value heads",
        )
        _require(attention.window is None or attention.window > 0, f"{name}: an empty window")
    elif isinstance(attention, LatentAttention):
        sizes = (attention.heads, attention.kv_rank, attention.nope_dim, attention.value_dim)
        _require(min(sizes) > 0, f"{name}: latent sizes must be positive")
    mlp = group.mlp
    _require(mlp.intermediate > 0, f"{name}: the MLP's width must be positive")
    if isinstance(mlp, Experts):
        _require(0 < mlp.top_k <= mlp.experts, f"{name}: top {mlp.top_k} of {mlp.experts} experts")
