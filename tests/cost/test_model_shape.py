"""Shapes read from configs, against what publishers state."""

import pytest

from netgain.cost.hf_config import shape_from_hf
from netgain.cost.known_models import known_models, known_shape
from netgain.cost.model_shape import ModelShape, Part
from netgain.errors import ModelError

# Totals of the published safetensors files.
PUBLISHED = {
    "Llama-2-7B": 6_738_415_616,
    "Llama-2-13B": 13_015_864_320,
    "Llama-2-70B": 68_976_648_192,
    "Llama-3.1-8B": 8_030_261_248,
    "Llama-3.1-70B": 70_553_706_496,
    "Llama-3.1-405B": 405_853_388_800,
    "Llama-3.2-1B": 1_235_814_400,
    "Llama-3.2-3B": 3_212_749_824,
    "Mistral-7B": 7_241_732_096,
    "Mistral-Nemo": 12_247_782_400,
    "Mixtral-8x7B": 46_702_792_704,
    "Qwen2.5-0.5B": 494_032_768,
    "Qwen2.5-7B": 7_615_616_512,
    "Qwen2.5-72B": 72_706_203_648,
    "Qwen3-0.6B": 596_049_920,
    "Qwen3-8B": 8_190_735_360,
    "Qwen3-32B": 32_762_123_264,
    "Qwen3-30B-A3B": 30_532_122_624,
    "Qwen3-235B-A22B": 235_093_634_560,
    "gpt-oss-20b": 20_914_757_184,
    "gpt-oss-120b": 116_829_156_672,
    "DeepSeek-V3": 671_026_419_200,
    "DeepSeek-V2-Lite": 15_706_484_224,
    "Gemma-2-9B": 9_241_705_984,
    "Gemma-3-1B": 999_885_952,
    "Phi-3-mini": 3_821_079_552,
    "Phi-4": 14_659_507_200,
    "Yi-34B": 34_388_917_248,
    "BLOOM-176B": 176_247_271_424,
    "SmolLM2-135M": 134_515_008,
    "SmolLM2-360M": 361_821_120,
    "SmolLM2-1.7B": 1_711_376_384,
}


def shape(name: str) -> ModelShape:
    found = known_shape(name)
    assert found is not None
    return found


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


def test_parts_add_up() -> None:
    parts = shape("gpt-oss-120b").parameters_by_part()
    assert sum(parts.values()) == 116_829_156_672
    assert parts[Part.EMBEDDING] == parts[Part.HEAD] == 201_088 * 2880


@pytest.mark.parametrize("name", ["LLAMA 2 7b", "llama-2-7B", "meta-llama/Llama-2-7b-hf"])
def test_names_are_forgiving(name: str) -> None:
    assert shape(name).name == "Llama-2-7B"


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


def test_an_unknown_architecture_is_read_as_a_llama_and_says_so() -> None:
    config = {
        "model_type": "novel",
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "vocab_size": 100,
        "intermediate_size": 128,
    }
    assert "read as a Llama" in shape_from_hf(config, "new").notes[0]


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
