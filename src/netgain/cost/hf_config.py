"""A model's shape from its Hugging Face `config.json`.

Each architecture's matrices, biases and norms are as in its definition in `transformers`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from netgain.cost.config_fields import ConfigFields
from netgain.cost.model_shape import (
    MLP,
    Attention,
    DenseMLP,
    Experts,
    GroupedAttention,
    LatentAttention,
    LayerGroup,
    ModelShape,
    StateAttention,
)
from netgain.errors import ModelError

_INTERMEDIATE_KEYS: Final = ("intermediate_size", "ffn_dim", "n_inner")
_FOUR_TIMES_WIDE: Final = frozenset({"bloom"})
"""Architectures whose MLP is four times as wide as the model, whatever their config says."""
_DTYPES: Final = {"float32": "fp32", "float16": "bf16", "bfloat16": "bf16", "half": "bf16",
                  "float": "fp32", "auto": "bf16"}  # fmt: skip


def shape_from_hf(config: Mapping[str, object], name: str, source: str = "") -> ModelShape:
    """The shape a `config.json` describes.

    A multimodal config counts its text model only, and says so in `notes`. An unknown `model_type`
    with the usual keys is read as a Llama, and says so too. Raises `ModelError` for a config that
    is not a language model's or lacks a key.
    """
    whole = ConfigFields(config, source or f"{name}: config.json")
    notes: list[str] = []
    fields = whole
    if whole.has("text_config"):
        fields = whole.nested("text_config")
        notes.append("Only the text model is counted: the encoder of other media is not.")
    kind = fields.text("model_type", default=whole.text("model_type", default="unknown"))
    if not fields.has("hidden_size") and not fields.has("n_embed"):
        raise ModelError(
            f"{source or name}: no hidden_size: this is not the config of a language model"
        )
    family = _FAMILIES.get(kind)
    if family is None:
        family, like = _nearest_family(fields, source or name)
        notes.append(f"Model type {kind!r} is not known: read as {like} with these sizes.")
    parts = family(fields)
    sizes = ("moe_intermediate_size", *_INTERMEDIATE_KEYS)
    if kind not in _FOUR_TIMES_WIDE and not any(fields.has(key) for key in sizes):
        notes.append(f"No intermediate_size: 4 x {parts.hidden:,} is assumed.")
    weights, doubts = _native_weights(whole, fields)
    notes += doubts
    count = len(parts.layers)
    if not count:
        raise ModelError(f"{source or name}: num_hidden_layers must be positive")
    return ModelShape(
        name=name,
        hidden=parts.hidden,
        vocab=fields.integer("vocab_size", default=parts.vocab),
        groups=_grouped(parts.layers),
        tied=_tied(whole, fields, parts.tied_by_default),
        final_norm=parts.final_norm,
        max_positions=fields.integer(
            "max_position_embeddings", "seq_length", "n_positions", default=parts.max_positions
        ),
        native_weights=weights,
        positions=parts.positions,
        embedding_norm=parts.embedding_norm,
        head_bias=parts.head_bias,
        source=source,
        notes=(*notes, *parts.notes),
    )


@dataclass(frozen=True, slots=True)
class _Layer:
    attention: Attention
    mlp: MLP
    norms: int


@dataclass(frozen=True, slots=True)
class _Parts:
    hidden: int
    layers: Sequence[_Layer]
    final_norm: int
    tied_by_default: bool = False
    vocab: int | None = None
    max_positions: int = 1 << 20
    positions: int = 0
    embedding_norm: int = 0
    head_bias: int = 0
    notes: tuple[str, ...] = ()


def _grouped(layers: Sequence[_Layer]) -> tuple[LayerGroup, ...]:
    """Equal layers, wherever they stand, as one group."""
    counts: dict[_Layer, int] = {}
    for layer, run in groupby(layers):
        counts[layer] = counts.get(layer, 0) + len(list(run))
    return tuple(LayerGroup(n, one.attention, one.mlp, one.norms) for one, n in counts.items())


def _tied(whole: ConfigFields, fields: ConfigFields, default: bool) -> bool:
    inner = fields.boolean("tie_word_embeddings", default=default)
    return whole.boolean("tie_word_embeddings", default=inner)


def _native_weights(whole: ConfigFields, fields: ConfigFields) -> tuple[str, list[str]]:
    """The format the weights are published in, and what had to be assumed for it."""
    quantised = whole if whole.has("quantization_config") else fields
    doubts = []
    if quantised.has("quantization_config"):
        config = quantised.nested("quantization_config")
        known = _quantised(config)
        if known is not None:
            return known, []
        method = config.text("quant_method", default="")
        doubts.append(
            f"Quantisation method {method!r} is not known: its weights are taken as unquantised. "
            "Give --precision."
        )
    stored = fields.text(
        "torch_dtype", "dtype", default=whole.text("torch_dtype", "dtype", default="bfloat16")
    )
    name = _DTYPES.get(stored.removeprefix("torch."))
    if name is None:
        doubts.append(f"Data type {stored!r} is not known: bf16 is assumed. Give --precision.")
    return name or "bf16", doubts


def _quantised(config: ConfigFields) -> str | None:
    """The format of a quantised model's weights; None for a method that is not known."""
    method = config.text("quant_method", default="")
    if method == "fp8":
        return "fp8-block" if config.has("weight_block_size") else "fp8"
    if method == "mxfp4":
        return "mxfp4"
    if method in ("awq", "gptq"):
        return "int4" if config.integer("bits", "w_bit", default=4) == 4 else "int8"
    if method in ("compressed-tensors", "modelopt"):
        return _of_groups(config)
    if method == "fbgemm_fp8":
        return "fp8"
    if method == "bitsandbytes":
        return "int4" if config.boolean("load_in_4bit", default=False) else "int8"
    return None


def _of_groups(config: ConfigFields) -> str:
    """The weights of the first group of layers; modelopt may only name its algorithm."""
    algorithm = config.text("quant_algo", default="").casefold()
    weights = config.nested("config_groups").nested("group_0").nested("weights")
    bits = weights.integer("num_bits", default=4 if "4" in algorithm else 8)
    integer = weights.text("type", default="float") == "int"
    if bits == 4:
        return "int4" if integer or "int4" in algorithm or "w4a16" in algorithm else "nvfp4"
    return "int8" if integer else "fp8"


@dataclass(frozen=True, slots=True)
class _Common:
    """What every architecture with grouped attention says."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int

    @classmethod
    def of(cls, fields: ConfigFields) -> "_Common":
        hidden = fields.integer("hidden_size", "n_embed")
        layers = fields.integer("num_hidden_layers", "n_layer")
        heads = fields.integer("num_attention_heads", "n_head")
        if not heads or not hidden:
            raise ModelError("config.json: hidden_size and num_attention_heads must be positive")
        return cls(
            hidden=hidden,
            layers=layers,
            heads=heads,
            kv_heads=fields.integer("num_key_value_heads", default=heads),
            head_dim=fields.integer("head_dim", default=hidden // heads),
            intermediate=fields.integer(*_INTERMEDIATE_KEYS, default=4 * hidden),
        )


def _llama(fields: ConfigFields) -> _Parts:
    return _grouped_model(fields)


_EXPERTS_KEYS: Final = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
_TOP_K_KEYS: Final = ("num_experts_per_tok", "experts_per_token", "moe_k", "moe_topk", "moe_top_k")
_SHARED_KEYS: Final = ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts")
_DENSE_FIRST_KEYS: Final = ("first_k_dense_replace", "moe_layer_start_index")
_STATE_KEYS: Final = (
    "mamba_d_state",
    "ssm_state_size",
    "state_size",
    "conv_L_cache",
    "mamba_expand",
)


def _nearest_family(
    fields: ConfigFields, where: str
) -> tuple[Callable[[ConfigFields], _Parts], str]:
    """How to read an architecture that is not known, by the keys it has, and what that is like.

    Raises `ModelError` for layers that are no attention: nothing here could count their state.
    """
    for key in _STATE_KEYS:
        if fields.has(key):
            raise ModelError(
                f"{where}: layers with a state of their own ({key}) of a model type that is not "
                "known: their sizes cannot be counted"
            )
    latent = fields.has("kv_lora_rank") and fields.has("qk_rope_head_dim")
    if latent and fields.has("n_routed_experts"):
        return _deepseek, "a DeepSeek-V3"
    if latent:
        raise ModelError(f"{where}: latent attention of a model type that is not known")
    experts = next((key for key in _EXPERTS_KEYS if fields.has(key)), None)
    if experts is not None and fields.integer(experts) > 1:
        return _llama_with_experts, "a Llama with experts, its MLPs gated,"
    return _llama, "a Llama, its MLP gated,"


def _llama_with_experts(fields: ConfigFields) -> _Parts:
    c = _Common.of(fields)
    width = fields.integer("moe_intermediate_size", default=c.intermediate)
    experts = Experts(
        fields.integer(*_EXPERTS_KEYS),
        fields.integer(*_TOP_K_KEYS),
        width,
        fields.integer(
            "shared_expert_intermediate_size",
            default=width * fields.integer(*_SHARED_KEYS, default=0),
        ),
    )
    dense_first = fields.integer(*_DENSE_FIRST_KEYS, default=0)
    return _grouped_model(
        fields, mlp=lambda index: DenseMLP(c.intermediate) if index < dense_first else experts
    )


def _grouped_model(
    fields: ConfigFields,
    *,
    qkv_bias: bool | None = None,
    output_bias: bool | None = None,
    qk_norm: bool = False,
    windowed: bool = False,
    norms: int = 2,
    tied: bool = False,
    mlp: Callable[[int], MLP] | None = None,
    extra: int = 0,
) -> _Parts:
    """The Llama pattern: RMS norms, gated MLP, rotary positions; what differs is said by name."""
    c = _Common.of(fields)
    stated = fields.boolean("attention_bias", default=False)
    kinds = fields.texts("layer_types")
    width = fields.maybe_integer("sliding_window") if windowed or kinds else None
    plain = DenseMLP(c.intermediate, bias=fields.boolean("mlp_bias", default=False))
    layers = []
    for index in range(c.layers):
        window = (
            (width if index < len(kinds) and kinds[index] == "sliding_attention" else None)
            if kinds
            else width
        )
        attention = GroupedAttention(
            c.heads,
            c.kv_heads,
            c.head_dim,
            c.head_dim,
            window,
            stated if qkv_bias is None else qkv_bias,
            stated if output_bias is None else output_bias,
            (2 * c.head_dim if qk_norm else 0) + extra,
        )
        layers.append(_Layer(attention, plain if mlp is None else mlp(index), norms * c.hidden))
    return _Parts(c.hidden, layers, c.hidden, tied)


def _mistral(fields: ConfigFields) -> _Parts:
    return _grouped_model(fields, windowed=True)


def _mixtral(fields: ConfigFields) -> _Parts:
    c = _Common.of(fields)
    experts = Experts(
        fields.integer("num_local_experts"), fields.integer("num_experts_per_tok"), c.intermediate
    )
    return _grouped_model(fields, windowed=True, mlp=lambda _: experts)


def _qwen2(fields: ConfigFields) -> _Parts:
    # The config states a window even where none is used.
    windowed = fields.boolean("use_sliding_window", default=False)
    return _grouped_model(fields, qkv_bias=True, output_bias=False, windowed=windowed)


def _qwen3(fields: ConfigFields) -> _Parts:
    return _grouped_model(fields, qk_norm=True)


def _qwen3_moe(fields: ConfigFields) -> _Parts:
    c = _Common.of(fields)
    step = fields.integer("decoder_sparse_step", default=1)
    dense = set(fields.integers("mlp_only_layers"))
    experts = Experts(
        fields.integer("num_experts"),
        fields.integer("num_experts_per_tok"),
        fields.integer("moe_intermediate_size"),
    )

    def mlp(index: int) -> MLP:
        sparse = index not in dense and (index + 1) % max(step, 1) == 0
        return experts if sparse else DenseMLP(c.intermediate)

    return _grouped_model(fields, qk_norm=True, mlp=mlp)


def _qwen2_moe(fields: ConfigFields) -> _Parts:
    experts = Experts(
        fields.integer("num_experts"),
        fields.integer("num_experts_per_tok"),
        fields.integer("moe_intermediate_size"),
        fields.integer("shared_expert_intermediate_size", default=0),
        shared_gate=True,
    )
    return _grouped_model(fields, qkv_bias=True, output_bias=False, mlp=lambda _: experts)


def _qwen3_next(fields: ConfigFields) -> _Parts:
    """Three gated delta-rule layers to one of full (gated) attention; experts everywhere."""
    c = _Common.of(fields)
    key_heads = fields.integer("linear_num_key_heads")
    value_heads = fields.integer("linear_num_value_heads")
    key_dim = fields.integer("linear_key_head_dim") * key_heads
    value_dim = fields.integer("linear_value_head_dim") * value_heads
    width = fields.integer("linear_conv_kernel_dim", default=4)
    mixed = 2 * key_dim + value_dim
    state = StateAttention(
        state_elements=value_heads
        * fields.integer("linear_key_head_dim")
        * fields.integer("linear_value_head_dim"),
        conv_elements=mixed * (width - 1),
        parameters=c.hidden * (mixed + value_dim + 2 * value_heads)
        + mixed * width
        + 2 * value_heads
        + fields.integer("linear_value_head_dim")
        + value_dim * c.hidden,
    )
    gate = c.hidden * c.heads * c.head_dim  # the query projection carries an output gate
    full = GroupedAttention(
        c.heads, c.kv_heads, c.head_dim, c.head_dim, extra=2 * c.head_dim + gate
    )
    experts: MLP = DenseMLP(c.intermediate)
    if fields.has("num_experts"):
        experts = Experts(
            fields.integer("num_experts"),
            fields.integer("num_experts_per_tok"),
            fields.integer("moe_intermediate_size"),
            fields.integer("shared_expert_intermediate_size", default=0),
            shared_gate=True,
        )
    every = fields.integer("full_attention_interval", default=4)
    kinds = fields.texts("layer_types")

    def is_full(index: int) -> bool:
        return kinds[index] == "full_attention" if kinds else (index + 1) % every == 0

    layers = [
        _Layer(full if is_full(index) else state, experts, 2 * c.hidden)
        for index in range(c.layers)
    ]
    return _Parts(c.hidden, layers, c.hidden)


def _gpt_oss(fields: ConfigFields) -> _Parts:
    c = _Common.of(fields)
    experts = Experts(
        fields.integer("num_local_experts"),
        fields.integer("num_experts_per_tok", "experts_per_token"),
        c.intermediate,
        bias=True,
        router_bias=True,
    )
    # Without layer_types the layers alternate, a window first.
    kinds = fields.texts("layer_types") or tuple(
        "sliding_attention" if index % 2 == 0 else "full_attention" for index in range(c.layers)
    )
    width = fields.integer("sliding_window", default=128)
    layers = [
        _Layer(
            GroupedAttention(
                c.heads,
                c.kv_heads,
                c.head_dim,
                c.head_dim,
                width if kinds[index] == "sliding_attention" else None,
                qkv_bias=True,
                output_bias=True,
                extra=c.heads,  # one sink per head
            ),
            experts,
            2 * c.hidden,
        )
        for index in range(min(c.layers, len(kinds)))
    ]
    return _Parts(c.hidden, layers, c.hidden)


def _deepseek(fields: ConfigFields) -> _Parts:
    c = _Common.of(fields)
    attention = LatentAttention(
        heads=c.heads,
        query_rank=fields.maybe_integer("q_lora_rank"),
        kv_rank=fields.integer("kv_lora_rank"),
        rope_dim=fields.integer("qk_rope_head_dim"),
        nope_dim=fields.integer("qk_nope_head_dim"),
        value_dim=fields.integer("v_head_dim"),
    )
    experts, dense_first = _deepseek_experts(fields)
    layers = [
        _Layer(
            attention,
            DenseMLP(c.intermediate) if index < dense_first else experts,
            2 * c.hidden,
        )
        for index in range(c.layers)
    ]
    return _Parts(c.hidden, layers, c.hidden, notes=_without_prediction(fields))


def _deepseek_experts(fields: ConfigFields) -> tuple[Experts, int]:
    width = fields.integer("moe_intermediate_size")
    corrected = fields.text("topk_method", default="") == "noaux_tc" or fields.text(
        "model_type", default=""
    ) in ("deepseek_v3", "kimi_k2", "glm4_moe")
    experts = Experts(
        fields.integer("n_routed_experts"),
        fields.integer("num_experts_per_tok"),
        width,
        width * fields.integer("n_shared_experts", default=0),
        router_bias=corrected,
    )
    return experts, fields.integer("first_k_dense_replace", default=0)


def _without_prediction(fields: ConfigFields) -> tuple[str, ...]:
    extra = fields.integer("num_nextn_predict_layers", default=0)
    if not extra:
        return ()
    return (f"{extra} layer of multi-token prediction comes on top: it is not counted.",)


def _glm4_moe(fields: ConfigFields) -> _Parts:
    c = _Common.of(fields)
    experts, dense_first = _deepseek_experts(fields)
    parts = _grouped_model(
        fields,
        output_bias=False,
        qk_norm=fields.boolean("use_qk_norm", default=False),
        mlp=lambda index: DenseMLP(c.intermediate) if index < dense_first else experts,
    )
    return _Parts(c.hidden, parts.layers, c.hidden, notes=_without_prediction(fields))


def _llama4(fields: ConfigFields) -> _Parts:
    c = _Common.of(fields)
    step = fields.integer("interleave_moe_layer_step", default=1)
    experts = Experts(
        fields.integer("num_local_experts"),
        fields.integer("num_experts_per_tok"),
        c.intermediate,
        c.intermediate,
    )
    dense = DenseMLP(fields.integer("intermediate_size_mlp", default=c.intermediate))
    chunk = fields.integer("attention_chunk_size", default=8192)
    # Every fourth layer has no rotary positions and sees everything; the others see their chunk.
    every = fields.integer("no_rope_layer_interval", default=4)
    layers = [
        _Layer(
            GroupedAttention(
                c.heads,
                c.kv_heads,
                c.head_dim,
                c.head_dim,
                None if (index + 1) % max(every, 1) == 0 else chunk,
            ),
            experts if (index + 1) % max(step, 1) == 0 else dense,
            2 * c.hidden,
        )
        for index in range(c.layers)
    ]
    return _Parts(
        c.hidden,
        layers,
        c.hidden,
        notes=("Chunked attention is counted as a sliding window of the chunk's length.",),
    )


def _gemma(fields: ConfigFields) -> _Parts:
    return _grouped_model(fields, tied=True)


def _gemma2(fields: ConfigFields) -> _Parts:
    return _gemma_windows(fields, qk_norm=False, pattern=2)


def _gemma3(fields: ConfigFields) -> _Parts:
    # The multimodal configs state only what differs from the 4B model.
    fields = fields.with_defaults(
        {
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "head_dim": 256,
            "sliding_window": 4096,
        }
    )
    pattern = fields.integer("sliding_window_pattern", "_sliding_window_pattern", default=6)
    return _gemma_windows(fields, qk_norm=True, pattern=pattern)


def _gemma_windows(fields: ConfigFields, qk_norm: bool, pattern: int) -> _Parts:
    """Four norms per layer; every `pattern`-th layer sees everything, the others a window."""
    c = _Common.of(fields)
    width = fields.integer("sliding_window", default=4096)
    kinds = fields.texts("layer_types")

    def window(index: int) -> int | None:
        if kinds:
            return width if kinds[index] == "sliding_attention" else None
        return None if (index + 1) % max(pattern, 1) == 0 else width

    layers = [
        _Layer(
            GroupedAttention(
                c.heads,
                c.kv_heads,
                c.head_dim,
                c.head_dim,
                window(index),
                extra=2 * c.head_dim if qk_norm else 0,
            ),
            DenseMLP(c.intermediate),
            4 * c.hidden,
        )
        for index in range(c.layers)
    ]
    return _Parts(c.hidden, layers, c.hidden, tied_by_default=True, vocab=262208)


def _phi3(fields: ConfigFields) -> _Parts:
    # Its sliding window of 2047 is in the config of the 4k model; engines serve full attention.
    return _grouped_model(fields, qkv_bias=False, output_bias=False)


def _opt(fields: ConfigFields) -> _Parts:
    c = _Common.of(fields)
    layer = _Layer(
        GroupedAttention(
            c.heads, c.kv_heads, c.head_dim, c.head_dim, qkv_bias=True, output_bias=True
        ),
        DenseMLP(c.intermediate, gated=False, bias=True),
        4 * c.hidden,
    )
    longest = fields.integer("max_position_embeddings", default=2048)
    return _Parts(
        c.hidden,
        [layer] * c.layers,
        2 * c.hidden,
        tied_by_default=True,
        positions=longest + 2,
    )


def _bloom(fields: ConfigFields) -> _Parts:
    c = _Common.of(fields)
    layer = _Layer(
        GroupedAttention(c.heads, c.heads, c.head_dim, c.head_dim, qkv_bias=True, output_bias=True),
        DenseMLP(4 * c.hidden, gated=False, bias=True),
        4 * c.hidden,
    )
    return _Parts(
        c.hidden,
        [layer] * c.layers,
        2 * c.hidden,
        tied_by_default=True,
        max_positions=2048,
        embedding_norm=2 * c.hidden,
    )


_FAMILIES: Final[dict[str, Callable[[ConfigFields], _Parts]]] = {
    "llama": _llama,
    "smollm3": _llama,
    "mistral": _mistral,
    "mistral3": _mistral,
    "mixtral": _mixtral,
    "qwen2": _qwen2,
    "qwen2_moe": _qwen2_moe,
    "qwen2_5_vl_text": _qwen2,
    "qwen3": _qwen3,
    "qwen3_moe": _qwen3_moe,
    "qwen3_next": _qwen3_next,
    "qwen3_5_text": _qwen3_next,
    "qwen3_5_moe_text": _qwen3_next,
    "gpt_oss": _gpt_oss,
    "deepseek_v2": _deepseek,
    "deepseek_v3": _deepseek,
    "kimi_k2": _deepseek,
    "glm4_moe": _glm4_moe,
    "llama4": _llama4,
    "llama4_text": _llama4,
    "gemma": _gemma,
    "gemma2": _gemma2,
    "gemma3": _gemma3,
    "gemma3_text": _gemma3,
    "phi3": _phi3,
    "opt": _opt,
    "bloom": _bloom,
}
