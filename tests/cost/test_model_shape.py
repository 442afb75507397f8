"""Shapes read from configs, against what publishers state."""

import pytest

from netgain.cost.hf_config import shape_from_hf
from netgain.cost.known_models import known_models, known_shape
from netgain.cost.model_shape import ModelShape, Part
from netgain.errors import ModelError

# Totals of the published safetensors files: text model only, without multi-token prediction.
PUBLISHED = {
    "Llama-2-7B": 6_738_415_616,
    "Llama-2-13B": 13_015_864_320,
    "Llama-2-70B": 68_976_648_192,
    "Llama-3-8B": 8_030_261_248,
    "Llama-3-70B": 70_553_706_496,
    "Llama-3.1-8B": 8_030_261_248,
    "Llama-3.1-70B": 70_553_706_496,
    "Llama-3.3-70B": 70_553_706_496,
    "Llama-3.1-405B": 405_853_388_800,
    "Llama-3.2-1B": 1_235_814_400,
    "Llama-3.2-3B": 3_212_749_824,
    "Llama-4-Scout": 107_769_861_120,
    "Vicuna-13B": 13_015_864_320,
    "Yi-34B": 34_388_917_248,
    "Mistral-7B": 7_241_732_096,
    "Mistral-7B-v0.3": 7_248_023_552,
    "Mistral-Nemo-12B": 12_247_782_400,
    "Mistral-Small-24B": 23_572_403_200,
    "Mixtral-8x7B": 46_702_792_704,
    "Mixtral-8x22B": 140_630_071_296,
    "Qwen2.5-0.5B": 494_032_768,
    "Qwen2.5-1.5B": 1_543_714_304,
    "Qwen2.5-3B": 3_085_938_688,
    "Qwen2.5-7B": 7_615_616_512,
    "Qwen2.5-14B": 14_770_033_664,
    "Qwen2.5-32B": 32_763_876_352,
    "Qwen2.5-72B": 72_706_203_648,
    "Qwen3-0.6B": 596_049_920,
    "Qwen3-1.7B": 1_720_574_976,
    "Qwen3-4B": 4_022_468_096,
    "Qwen3-4B-2507": 4_022_468_096,
    "Qwen3-8B": 8_190_735_360,
    "Qwen3-14B": 14_768_307_200,
    "Qwen3-32B": 32_762_123_264,
    "Qwen3-30B-A3B": 30_532_122_624,
    "Qwen3-30B-A3B-2507": 30_532_122_624,
    "Qwen3-235B-A22B": 235_093_634_560,
    "Qwen3-235B-A22B-2507": 235_093_634_560,
    "Qwen3-Next-80B-A3B": 79_674_391_296,
    "gpt-oss-20b": 20_914_757_184,
    "gpt-oss-120b": 116_829_156_672,
    "DeepSeek-V3": 671_026_419_200,
    "DeepSeek-R1": 671_026_419_200,
    "DeepSeek-V2-Lite": 15_706_484_224,
    "Kimi-K2": 1_026_408_232_448,
    "GLM-4.5": 352_797_829_024,
    "GLM-4.5-Air": 106_852_251_264,
    "Gemma-2-2B": 2_614_341_888,
    "Gemma-2-9B": 9_241_705_984,
    "Gemma-2-27B": 27_227_128_320,
    "Gemma-3-1B": 999_885_952,
    "Gemma-3-4B": 3_880_263_168,
    "Gemma-3-12B": 11_766_034_176,
    "Gemma-3-27B": 27_009_346_304,
    "Phi-3-mini": 3_821_079_552,
    "Phi-4": 14_659_507_200,
    "OPT-66B": 65_719_701_504,
    "OPT-13B": 12_853_473_280,
    "BLOOM-176B": 176_247_271_424,
    "SmolLM2-135M": 134_515_008,
    "SmolLM2-360M": 361_821_120,
    "SmolLM2-1.7B": 1_711_376_384,
    "SmolLM3-3B": 3_075_098_624,
}


LLAMA: dict[str, object] = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 100,
    "intermediate_size": 128,
}


def compressed(bits: int, kind: str) -> dict[str, object]:
    group = {"weights": {"num_bits": bits, "type": kind}}
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}}


def shape(name: str) -> ModelShape:
    found = known_shape(name)
    assert found is not None
    return found


# What publishers print, of whole multimodal and multi-token-predicting models too.
PRINTED = {
    "Llama-4-Scout": 109e9, "Mixtral-8x22B": 141e9, "Kimi-K2": 1.03e12, "DeepSeek-V3": 671e9,
    "GLM-4.5": 355e9, "GLM-4.5-Air": 106e9, "Qwen3-Next-80B-A3B": 80e9, "Qwen3-235B-A22B": 235e9,
    "gpt-oss-120b": 117e9, "gpt-oss-20b": 21e9, "OPT-66B": 66e9, "OPT-13B": 13e9,
    "Gemma-2-2B": 2.6e9, "Gemma-2-27B": 27.2e9, "Gemma-3-27B": 27e9, "SmolLM3-3B": 3.08e9,
}  # fmt: skip


def test_every_shipped_model_has_a_published_total() -> None:
    assert set(PUBLISHED) == {model.name for model in known_models()}


@pytest.mark.parametrize(("name", "total"), PRINTED.items())
def test_totals_are_near_what_publishers_print(name: str, total: float) -> None:
    assert shape(name).parameters == pytest.approx(total, rel=0.015)


@pytest.mark.parametrize(("name", "total"), PUBLISHED.items())
def test_parameters_are_counted_to_the_last_one(name: str, total: int) -> None:
    assert shape(name).parameters == total


@pytest.mark.parametrize(
    ("name", "total", "active"),
    [
        ("Mixtral-8x7B", 46.7e9, 12.9e9),
        ("Qwen3-30B-A3B", 30.5e9, 3.3e9),
        ("Llama-4-Scout", 109e9, 17e9),
        ("GLM-4.5", 355e9, 32e9),
        ("Kimi-K2", 1.03e12, 32e9),
    ],
)
def test_active_parameters_are_near_what_is_published(
    name: str, total: float, active: float
) -> None:
    found = shape(name)
    assert found.parameters == pytest.approx(total, rel=0.015)
    assert found.active_parameters == pytest.approx(active, rel=0.06)


@pytest.mark.parametrize(
    ("name", "active"),
    [("gpt-oss-20b", 3.61e9), ("gpt-oss-120b", 5.13e9), ("DeepSeek-V3", 37e9)],
)
def test_where_the_embedding_table_does_not_count_the_others_are_active(
    name: str, active: float
) -> None:
    assert shape(name).multiplied_parameters == pytest.approx(active, rel=0.02)


def test_active_parameters_of_a_hybrid_with_a_shared_expert_are_exact() -> None:
    assert shape("Qwen3-Next-80B-A3B").active_parameters == 3_874_929_408


def test_parts_add_up() -> None:
    parts = shape("gpt-oss-120b").parameters_by_part()
    assert sum(parts.values()) == 116_829_156_672
    assert parts[Part.EMBEDDING] == parts[Part.HEAD] == 201_088 * 2880


@pytest.mark.parametrize("name", ["LLAMA 2 7b", "llama-2-7B", "meta-llama/Llama-2-7b-hf"])
def test_names_are_forgiving(name: str) -> None:
    assert shape(name).name == "Llama-2-7B"


@pytest.mark.parametrize(
    ("name", "longest"),
    [
        ("Qwen3-30B-A3B", 40_960),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", 262_144),
        ("Qwen3-235B-A22B-Thinking-2507", 262_144),
        ("Llama-3-8B", 8192),
        ("Llama-3.1-8B", 131_072),
    ],
)
def test_releases_of_one_size_have_their_own_longest_context(name: str, longest: int) -> None:
    assert shape(name).max_positions == longest


def test_no_two_models_answer_to_one_name() -> None:
    names = [name for m in known_models() for name in {m.name, *m.aliases}]
    assert len({name.casefold() for name in names}) == len(names)


def test_windows_alternate_in_gpt_oss_and_come_five_to_one_in_gemma_3() -> None:
    def windowed(name: str) -> int:
        return sum(
            group.count
            for group in shape(name).groups
            if getattr(group.attention, "window", None) is not None
        )

    assert windowed("gpt-oss-20b") == 12
    assert windowed("Gemma-3-27B") == 52


def test_a_gemma_3_config_that_states_only_what_differs_is_read() -> None:
    config = {
        "model_type": "gemma3",
        "text_config": {
            "model_type": "gemma3_text",
            "hidden_size": 2560,
            "intermediate_size": 10240,
            "num_hidden_layers": 34,
            "sliding_window": 1024,
        },
    }
    read = shape_from_hf(config, "Gemma-3-4B")
    assert read.parameters == shape("Gemma-3-4B").parameters
    assert "Only the text model" in read.notes[0]


@pytest.mark.parametrize(
    ("quantisation", "weights"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8-block"),
        ({"quant_method": "awq", "bits": 4}, "int4"),
        ({"quant_method": "gptq", "bits": 8}, "int8"),
        ({"quant_method": "compressed-tensors"}, "fp8"),
        (compressed(4, "int"), "int4"),
        (compressed(4, "float"), "nvfp4"),
        (compressed(8, "int"), "int8"),
        (compressed(8, "float"), "fp8"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8"),
        ({"quant_method": "modelopt", "quant_algo": "W4A16_AWQ"}, "int4"),
    ],
)
def test_the_format_of_quantised_weights_is_read(
    quantisation: dict[str, object], weights: str
) -> None:
    config = LLAMA | {"quantization_config": quantisation}
    assert shape_from_hf(config, "quantised").native_weights == weights


def test_an_unknown_architecture_is_read_as_a_llama_and_says_so() -> None:
    config = LLAMA | {"model_type": "novel"}
    assert "read as a Llama" in shape_from_hf(config, "new").notes[0]


def test_an_unknown_architecture_with_experts_is_not_read_as_dense() -> None:
    config = LLAMA | {
        "model_type": "novel_moe",
        "num_experts": 16,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 32,
        "num_shared_experts": 1,
        "first_k_dense_replace": 1,
    }
    read = shape_from_hf(config, "new")
    assert "a Llama with experts" in read.notes[0]
    parts = read.parameters_by_part()
    assert parts[Part.EXPERTS] == 16 * 3 * 64 * 32
    assert parts[Part.SHARED] == 3 * 64 * 32
    assert parts[Part.MLP] == 3 * 64 * 128


def test_latent_attention_of_an_unknown_architecture_is_not_read_as_heads() -> None:
    latent: dict[str, object] = {
        "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16,
    }  # fmt: skip
    experts: dict[str, object] = {
        "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
    }  # fmt: skip
    read = shape_from_hf(LLAMA | latent | experts | {"model_type": "deepseek_v9"}, "new")
    assert read.is_latent
    with pytest.raises(ModelError, match="latent attention"):
        shape_from_hf(LLAMA | latent | {"model_type": "novel"}, "new")


def test_states_of_an_unknown_architecture_are_refused() -> None:
    with pytest.raises(ModelError, match="cannot be counted"):
        shape_from_hf(LLAMA | {"model_type": "novel", "mamba_d_state": 16}, "new")


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"model_type": "llama", "hidden_size": "large"},
        {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 0},
        {
            "model_type": "llama",
            "hidden_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 0,
        },
        {"hidden_size": -1, "num_hidden_layers": 2, "num_attention_heads": 1},
    ],
)
def test_a_broken_config_is_refused_by_name(config: dict[str, object]) -> None:
    with pytest.raises(ModelError):
        shape_from_hf(config, "broken")


PLAIN = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 128, "vocab_size": 100,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"quantization_config": {"quant_method": "hqq"}}, "'hqq' is not known"),
        ({"torch_dtype": "float8_e8m0"}, "'float8_e8m0' is not known: bf16 is assumed"),
        ({"intermediate_size": None}, "No intermediate_size: 4 x 64 is assumed"),
        ({"model_type": "novel"}, "'novel' is not known"),
    ],
)
def test_what_is_assumed_of_a_config_is_said(changed: dict[str, object], says: str) -> None:
    assert says in " ".join(shape_from_hf({**PLAIN, **changed}, "new").notes)


@pytest.mark.parametrize(
    ("changed", "weights"),
    [
        ({"torch_dtype": "float16"}, "bf16"),
        ({"dtype": "torch.float32"}, "fp32"),
        ({"quantization_config": {"quant_method": "fp8"}, "torch_dtype": "int8"}, "fp8"),
    ],
)
def test_what_a_config_says_plainly_needs_no_note(changed: dict[str, object], weights: str) -> None:
    shape = shape_from_hf({**PLAIN, **changed}, "plain")
    assert shape.native_weights == weights
    assert not shape.notes


def test_no_model_that_ships_rests_on_an_assumption() -> None:
    notes = [note for model in known_models() for note in model.shape.notes]
    assert not [note for note in notes if "assumed" in note or "not known" in note]
