"""Configs of both formats parse, or say what is wrong."""

from pathlib import Path
from typing import Final

import pytest

from netgain.errors import ModelError
from netgain.models.config import (
    JSON,
    Architecture,
    LinearScaling,
    Llama3Scaling,
    ModelConfig,
    Rope,
)
from netgain.models.gguf_file import GGUFHeader, MetadataValue, TensorInfo
from netgain.models.parameters import parameter_count

HF: Final[dict[str, JSON]] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "vocab_size": 100,
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 128,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GGUF: Final[dict[str, MetadataValue]] = {
    "general.architecture": "llama",
    "llama.block_count": 2,
    "llama.context_length": 128,
    "llama.embedding_length": 64,
    "llama.feed_forward_length": 96,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.ggml.eos_token_id": 2,
}


def header(*extra_tensors: str, **changes: MetadataValue) -> GGUFHeader:
    metadata = GGUF | {key.replace("__", "."): value for key, value in changes.items()}
    names = ("token_embd.weight", *extra_tensors)
    tensors = {name: TensorInfo(name, (100, 64), 0, 0) for name in names}
    return GGUFHeader(Path("some.gguf"), 3, metadata, tensors, 0, 0)


def test_both_formats_of_one_model_give_one_config() -> None:
    hugging_face = ModelConfig.from_hf(HF | {"tie_word_embeddings": True})
    assert hugging_face == ModelConfig.from_gguf(header())
    assert hugging_face.architecture is Architecture.LLAMA
    assert hugging_face.head_dim == 16
    assert hugging_face.rope == Rope(10000.0)


def test_a_gguf_with_an_output_tensor_is_not_tied() -> None:
    assert not ModelConfig.from_gguf(header("output.weight")).tie_embeddings


def test_biases_of_a_gguf_are_read_off_its_tensors() -> None:
    config = ModelConfig.from_gguf(header("blk.0.attn_q.bias", "blk.0.ffn_gate.bias"))
    assert config.attention_bias
    assert config.mlp_bias


def test_the_end_tokens_of_the_generation_config_count_too() -> None:
    config = ModelConfig.from_hf(HF, {"eos_token_id": [7, 2]})
    assert config.eos_ids == (7, 2)


def test_the_end_of_turn_token_of_a_gguf_ends_generation() -> None:
    config = ModelConfig.from_gguf(header(tokenizer__ggml__eot_token_id=9))
    assert config.eos_ids == (2, 9)


@pytest.mark.parametrize(
    ("settings", "rope"),
    [
        ({"rope_theta": 5e5}, Rope(5e5)),
        ({"rope_scaling": {"type": "linear", "factor": 2}}, Rope(1e4, LinearScaling(2.0))),
        (
            {
                "rope_parameters": {
                    "rope_type": "llama3",
                    "rope_theta": 5e5,
                    "factor": 8.0,
                    "low_freq_factor": 1.0,
                    "high_freq_factor": 4.0,
                    "original_max_position_embeddings": 64,
                }
            },
            Rope(5e5, Llama3Scaling(8.0, 1.0, 4.0, 64)),
        ),
    ],
)
def test_rope_settings_are_understood(settings: dict[str, JSON], rope: Rope) -> None:
    assert ModelConfig.from_hf(HF | settings).rope == rope


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"architectures": ["GPT2LMHeadModel"]}, "GPT2LMHeadModel is not supported"),
        ({"architectures": None}, "architectures is missing"),
        ({"hidden_size": None}, "hidden_size is missing"),
        ({"hidden_size": "64"}, "hidden_size must be an integer"),
        ({"num_attention_heads": 0}, "heads must be positive"),
        ({"num_key_value_heads": 3}, "4 heads cannot share 3 key-value heads"),
        ({"num_key_value_heads": -4}, "kv_heads must be positive"),
        ({"num_hidden_layers": 0}, "layers must be positive"),
        ({"head_dim": 15}, "odd"),
        ({"rms_norm_eps": 0.0}, "epsilon"),
        ({"hidden_act": "gelu"}, "'gelu' is not supported"),
        ({"eos_token_id": 100}, "outside the vocabulary"),
        ({"eos_token_id": "x"}, "eos_token_id must be a token id"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "'yarn' is not supported"),
        ({"rope_scaling": {"rope_type": "linear"}}, "factor is missing"),
        ({"rope_scaling": {"rope_type": "linear", "factor": 0}}, "factor must be positive"),
        ({"quantization_config": {"bits": 4}}, "quantised"),
    ],
)
def test_a_nonsensical_or_unsupported_config_is_refused(
    changes: dict[str, JSON], complaint: str
) -> None:
    with pytest.raises(ModelError, match=complaint):
        ModelConfig.from_hf(HF | changes)


@pytest.mark.parametrize(
    ("bad", "complaint"),
    [
        (header(general__architecture="mamba"), "'mamba' is not supported"),
        (header(llama__expert_count=8), "experts"),
        (header(llama__rope__dimension_count=8), "dimension_count differs"),
        (header(llama__rope__scaling__type="yarn"), "'yarn' is not supported"),
        (header("rope_freqs.weight"), "rope_freqs"),
        (header(llama__attention__head_count=0), "heads must be positive"),
        (header(llama__block_count="two"), "block_count must be an integer"),
    ],
)
def test_an_unsupported_gguf_is_refused(bad: GGUFHeader, complaint: str) -> None:
    with pytest.raises(ModelError, match=complaint):
        ModelConfig.from_gguf(bad)


def test_the_parameter_count_is_of_real_tensors() -> None:
    config = ModelConfig.from_hf(HF)
    attention = 64 * (4 + 2 + 2) * 16 + 64 * 64
    layer = attention + 3 * 64 * 96 + 2 * 64
    assert parameter_count(config) == 2 * 100 * 64 + 2 * layer + 64
    tied = ModelConfig.from_hf(HF | {"tie_word_embeddings": True})
    assert parameter_count(config) - parameter_count(tied) == 100 * 64


def test_a_llama_has_one_kv_group_of_all_layers() -> None:
    (group,) = ModelConfig.from_hf(HF).kv_groups(16)
    assert group.record_shape == (2, 2, 2, 16, 16)
