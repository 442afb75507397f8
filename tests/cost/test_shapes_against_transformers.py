"""Every shipped config, built without memory by transformers: the same parameters and layers."""

import tomllib
from importlib.resources import files

import pytest
import torch
import transformers

from netgain.cost.hf_config import shape_from_hf
from netgain.cost.known_models import known_shape
from netgain.cost.model_shape import GroupedAttention, ModelShape, StateAttention

CONFIGS = {
    entry["name"]: entry["config"]
    for entry in tomllib.loads(
        (files("netgain.cost") / "data" / "models.toml").read_text(encoding="utf-8")
    )["model"]
}
# Read by transformers as what they are built like; what is left out is None, not its default.
TOLD_DIFFERENTLY = {"kimi_k2": {"model_type": "deepseek_v3"}, "deepseek_v2": {"q_lora_rank": None}}


def shape(name: str) -> ModelShape:
    found = known_shape(name)
    assert found is not None
    return found


def config_of(name: str) -> transformers.PretrainedConfig:
    values = CONFIGS[name] | TOLD_DIFFERENTLY.get(CONFIGS[name]["model_type"], {})
    config: transformers.PretrainedConfig = transformers.AutoConfig.for_model(**values)
    return config


def built_parameters(config: transformers.PretrainedConfig) -> int:
    """What transformers stores of such a model, tied tensors once; no memory is taken."""
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    stored = list({id(tensor): tensor for tensor in model.parameters()}.values())
    # Routers' correction biases are stored, and are buffers there.
    stored += [tensor for key, tensor in model.named_buffers() if "correction_bias" in key]
    return sum(int(tensor.numel()) for tensor in stored)


@pytest.mark.parametrize("name", CONFIGS)
def test_parameters_are_those_of_the_model_that_transformers_builds(name: str) -> None:
    assert shape(name).parameters == built_parameters(config_of(name))


@pytest.mark.parametrize("name", CONFIGS)
def test_heads_and_windows_are_those_of_the_config_that_transformers_reads(name: str) -> None:
    config, found = config_of(name), shape(name)
    kinds = list(getattr(config, "layer_types", None) or [])
    layers = [group.attention for group in found.groups for _ in range(group.count)]
    grouped = [layer for layer in layers if isinstance(layer, GroupedAttention)]
    if kinds:
        windowed = sum(layer.window is not None for layer in grouped)
        assert windowed == sum("sliding" in kind or "chunked" in kind for kind in kinds)
        states = sum(isinstance(layer, StateAttention) for layer in layers)
        assert states == kinds.count("linear_attention")
    assert len(layers) == config.num_hidden_layers
    for layer in grouped:
        heads = config.num_attention_heads
        assert layer.heads == heads
        assert layer.kv_heads == getattr(config, "num_key_value_heads", heads)
        size = getattr(config, "head_dim", None) or config.hidden_size // heads
        assert layer.head_dim == layer.value_dim == size
    assert found.vocab == config.vocab_size


@pytest.mark.parametrize(
    "kind", ["olmoe", "granitemoe", "minimax_m2", "phimoe", "olmo2", "granite", "exaone4", "glm4"]
)
def test_unknown_architectures_are_counted_within_a_hundredth(kind: str) -> None:
    config = transformers.AutoConfig.for_model(kind)
    read = shape_from_hf(config.to_dict(), kind)
    assert "not known" in read.notes[0]
    assert read.parameters == pytest.approx(built_parameters(config), rel=0.01)
