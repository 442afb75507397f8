"""What a checkpoint says about its model, parsed and validated. No torch."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from netgain.errors import ModelError
from netgain.kv.geometry import KVDType, KVGroup
from netgain.models.gguf_file import GGUFHeader

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"


class Architecture(StrEnum):
    """Model definitions netgain has."""

    LLAMA = "llama"


_HF_ARCHITECTURES: Final = {"LlamaForCausalLM": Architecture.LLAMA}
_GGUF_ARCHITECTURES: Final = {"llama": Architecture.LLAMA}


@dataclass(frozen=True, slots=True)
class LinearScaling:
    """Positions divided by `factor`."""

    factor: float


@dataclass(frozen=True, slots=True)
class Llama3Scaling:
    """Low frequencies divided by `factor`, high ones kept, a smooth ramp between.

    Source: https://github.com/meta-llama/llama-models (`apply_scaling`).
    """

    factor: float
    low_frequency_factor: float
    high_frequency_factor: float
    original_positions: int


RopeScaling: TypeAlias = LinearScaling | Llama3Scaling


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary position embedding: base `theta` and an optional scaling."""

    theta: float
    scaling: RopeScaling | None = None


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Sizes and constants of a decoder-only model.

    `head_dim` need not be `hidden / heads`. `eos_ids` ends generation at any of its members.
    """

    architecture: Architecture
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    rms_eps: float
    rope: Rope
    tie_embeddings: bool
    max_positions: int
    bos_id: int | None
    eos_ids: tuple[int, ...]
    attention_bias: bool = False
    mlp_bias: bool = False

    def __post_init__(self) -> None:
        """Raises `ModelError` for sizes that fit no model."""
        for name in ("hidden", "layers", "heads", "kv_heads", "head_dim", "ffn", "vocab"):
            _require(getattr(self, name) > 0, f"{name} must be positive, not {getattr(self, name)}")
        _require(self.max_positions > 0, "the longest position must be positive")
        _require(
            self.heads % self.kv_heads == 0,
            f"{self.heads} heads cannot share {self.kv_heads} key-value heads evenly",
        )
        _require(self.head_dim % 2 == 0, f"head_dim {self.head_dim} is odd; RoPE pairs dimensions")
        _require(_positive(self.rms_eps), f"the RMS epsilon must be positive, not {self.rms_eps}")
        _require(_positive(self.rope.theta), f"rope theta must be positive, not {self.rope.theta}")
        for token in (*self.eos_ids, *(() if self.bos_id is None else (self.bos_id,))):
            _require(
                0 <= token < self.vocab,
                f"special token {token} is outside the vocabulary of {self.vocab}",
            )

    def kv_groups(self, block_tokens: int, dtype: KVDType = KVDType.FP32) -> tuple[KVGroup, ...]:
        """Layers by KV geometry: all full attention, hence one group."""
        layers = tuple(range(self.layers))
        return (KVGroup("full", layers, self.kv_heads, self.head_dim, block_tokens, dtype),)

    @classmethod
    def from_hf(
        cls, config: Mapping[str, JSON], generation: Mapping[str, JSON] | None = None
    ) -> "ModelConfig":
        """From `config.json` and, where present, `generation_config.json`.

        Raises `ModelError` for what is missing, malformed or unsupported.
        """
        return _from_hf(
            _Fields(config, "config.json"), _Fields(generation or {}, "generation_config.json")
        )

    @classmethod
    def from_gguf(cls, header: GGUFHeader) -> "ModelConfig":
        """From GGUF metadata; biases and a tied head are read off the tensor table.

        Raises `ModelError` for what is missing, malformed or unsupported.
        """
        return _from_gguf(header)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ModelError(f"model config: {message}")


def _positive(value: float) -> bool:
    return math.isfinite(value) and value > 0


class _Fields:
    """Typed access to loose metadata; names the key in every error."""

    def __init__(self, values: Mapping[str, object], where: str) -> None:
        self._values = values
        self._where = where

    def has(self, key: str) -> bool:
        return self._values.get(key) is not None

    def integer(self, key: str, default: int | None = None) -> int:
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(key, value, "an integer")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(key, value, "a number")
        return float(value)

    def boolean(self, key: str, default: bool) -> bool:
        value = self._get(key, default)
        if not isinstance(value, bool):
            raise self.error(key, value, "true or false")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        value = self._get(key, default)
        if not isinstance(value, str):
            raise self.error(key, value, "a string")
        return value

    def ids(self, key: str) -> tuple[int, ...]:
        """A token id, a list of them, or nothing."""
        value = self._values.get(key)
        items = value if isinstance(value, list) else [] if value is None else [value]
        for item in items:
            if isinstance(item, bool) or not isinstance(item, int):
                raise self.error(key, value, "a token id or a list of them")
        return tuple(items)

    def fields(self, key: str) -> "_Fields":
        value = self._get(key, None)
        if not isinstance(value, dict):
            raise self.error(key, value, "an object")
        return _Fields(value, f"{self._where}: {key}")

    def error(self, key: str, value: object, expected: str) -> ModelError:
        return ModelError(f"{self._where}: {key} must be {expected}, not {value!r:.80}")

    def _get(self, key: str, default: object) -> object:
        value = self._values.get(key)
        value = default if value is None else value
        if value is None:
            raise ModelError(f"{self._where}: {key} is missing")
        return value


def _from_hf(config: _Fields, generation: _Fields) -> ModelConfig:
    architecture = _hf_architecture(config)
    activation = config.text("hidden_act", "silu")
    _require(activation == "silu", f"activation {activation!r} is not supported (silu is)")
    _require(not config.has("quantization_config"), "quantised safetensors are not supported yet")
    hidden = config.integer("hidden_size")
    heads = config.integer("num_attention_heads")
    _require(heads > 0, f"heads must be positive, not {heads}")
    eos_ids = generation.ids("eos_token_id") + config.ids("eos_token_id")
    bos_ids = generation.ids("bos_token_id") + config.ids("bos_token_id")
    return ModelConfig(
        architecture=architecture,
        hidden=hidden,
        layers=config.integer("num_hidden_layers"),
        heads=heads,
        kv_heads=config.integer("num_key_value_heads", heads),
        head_dim=config.integer("head_dim", hidden // heads),
        ffn=config.integer("intermediate_size"),
        vocab=config.integer("vocab_size"),
        rms_eps=config.number("rms_norm_eps", 1e-6),
        rope=_hf_rope(config),
        tie_embeddings=config.boolean("tie_word_embeddings", False),
        max_positions=config.integer("max_position_embeddings"),
        bos_id=bos_ids[0] if bos_ids else None,
        eos_ids=tuple(dict.fromkeys(eos_ids)),
        attention_bias=config.boolean("attention_bias", False),
        mlp_bias=config.boolean("mlp_bias", False),
    )


def _hf_architecture(config: _Fields) -> Architecture:
    names = config._get("architectures", None)
    if not isinstance(names, list) or not names:
        raise config.error("architectures", names, "a list of names")
    for name in names:
        if isinstance(name, str) and name in _HF_ARCHITECTURES:
            return _HF_ARCHITECTURES[name]
    raise ModelError(
        f"architecture {', '.join(map(str, names))} is not supported "
        f"({', '.join(_HF_ARCHITECTURES)} is)"
    )


def _hf_rope(config: _Fields) -> Rope:
    # transformers 5 writes one `rope_parameters`, older files `rope_theta` and `rope_scaling`.
    if config.has("rope_parameters"):
        parameters = config.fields("rope_parameters")
        theta = parameters.number("rope_theta", 10000.0)
    elif config.has("rope_scaling"):
        parameters = config.fields("rope_scaling")
        theta = config.number("rope_theta", 10000.0)
    else:
        return Rope(config.number("rope_theta", 10000.0))
    partial = parameters.number("partial_rotary_factor", 1.0)
    _require(partial == 1.0, f"partial rotary factor {partial} is not supported")
    return Rope(theta, _hf_scaling(parameters))


def _hf_scaling(parameters: _Fields) -> RopeScaling | None:
    kind = parameters.text("rope_type", parameters.text("type", "default"))
    if kind == "default":
        return None
    if kind == "linear":
        return _linear(parameters.number("factor"))
    if kind == "llama3":
        return Llama3Scaling(
            factor=parameters.number("factor"),
            low_frequency_factor=parameters.number("low_freq_factor"),
            high_frequency_factor=parameters.number("high_freq_factor"),
            original_positions=parameters.integer("original_max_position_embeddings"),
        )
    raise ModelError(f"RoPE scaling {kind!r} is not supported (default, linear and llama3 are)")


def _linear(factor: float) -> LinearScaling:
    _require(_positive(factor), f"the RoPE scaling factor must be positive, not {factor}")
    return LinearScaling(factor)


def _from_gguf(header: GGUFHeader) -> ModelConfig:
    fields = _Fields(header.metadata, str(header.path))
    name = fields.text("general.architecture")
    if name not in _GGUF_ARCHITECTURES:
        supported = ", ".join(_GGUF_ARCHITECTURES)
        raise ModelError(f"architecture {name!r} is not supported ({supported} is)")
    _require(fields.integer(f"{name}.expert_count", 0) == 0, "experts are not supported yet")
    hidden = fields.integer(f"{name}.embedding_length")
    heads = fields.integer(f"{name}.attention.head_count")
    _require(heads > 0, f"heads must be positive, not {heads}")
    head_dim = fields.integer(f"{name}.attention.key_length", hidden // heads)
    for key in (f"{name}.attention.value_length", f"{name}.rope.dimension_count"):
        _require(
            fields.integer(key, head_dim) == head_dim,
            f"{key} differs from the head dimension {head_dim}, which is not supported",
        )
    if "token_embd.weight" not in header.tensors:
        raise ModelError(f"{header.path}: tensor token_embd.weight is missing")
    eos_ids = fields.ids("tokenizer.ggml.eos_token_id") + fields.ids("tokenizer.ggml.eot_token_id")
    bos_ids = fields.ids("tokenizer.ggml.bos_token_id")
    return ModelConfig(
        architecture=_GGUF_ARCHITECTURES[name],
        hidden=hidden,
        layers=fields.integer(f"{name}.block_count"),
        heads=heads,
        kv_heads=fields.integer(f"{name}.attention.head_count_kv", heads),
        head_dim=head_dim,
        ffn=fields.integer(f"{name}.feed_forward_length"),
        vocab=header.tensors["token_embd.weight"].shape[0],
        rms_eps=fields.number(f"{name}.attention.layer_norm_rms_epsilon"),
        rope=_gguf_rope(fields, name, header),
        tie_embeddings="output.weight" not in header.tensors,
        max_positions=fields.integer(f"{name}.context_length"),
        bos_id=bos_ids[0] if bos_ids else None,
        eos_ids=tuple(dict.fromkeys(eos_ids)),
        attention_bias="blk.0.attn_q.bias" in header.tensors,
        mlp_bias="blk.0.ffn_gate.bias" in header.tensors,
    )


def _gguf_rope(fields: _Fields, name: str, header: GGUFHeader) -> Rope:
    if "rope_freqs.weight" in header.tensors:
        raise ModelError(f"{header.path}: RoPE scaling by a rope_freqs tensor is not supported yet")
    theta = fields.number(f"{name}.rope.freq_base", 10000.0)
    kind = fields.text(f"{name}.rope.scaling.type", "none")
    if kind == "none":
        return Rope(theta)
    if kind == "linear":
        return Rope(theta, _linear(fields.number(f"{name}.rope.scaling.factor")))
    raise ModelError(f"RoPE scaling {kind!r} is not supported in GGUF (none and linear are)")
