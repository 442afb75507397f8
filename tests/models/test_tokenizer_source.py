"""Tokenizers and chat templates are found where checkpoints keep them."""

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers

from netgain.errors import ModelError
from netgain.models.chat_template_source import load_chat_template
from netgain.models.gguf_file import GGUFHeader, MetadataValue
from netgain.models.tokenizer_source import load_tokenizer


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    backend = Backend(models.BPE({"a": 0, "</s>": 1, "<|eot|>": 2, "<s>": 3}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(["</s>", "<|eot|>", "<s>"])
    backend.enable_truncation(max_length=2)
    backend.save(str(tmp_path / "tokenizer.json"))
    names = {"bos_token": {"content": "<s>"}, "eos_token": "</s>", "chat_template": "{{ 'old' }}"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(names))
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [1, 2]}')
    return tmp_path


def header(**fields: MetadataValue) -> GGUFHeader:
    base: dict[str, MetadataValue] = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": ["a", "<|eot_id|>", "</s>", "<|end|>"],
        "tokenizer.ggml.token_type": [1, 3, 3, 1],
        "tokenizer.ggml.merges": [],
        "tokenizer.ggml.eos_token_id": 2,
    }
    renamed = {f"tokenizer.{name.replace('__', '.')}": value for name, value in fields.items()}
    return GGUFHeader(Path("x.gguf"), 3, base | renamed, {}, 0, 0)


def test_a_directory_states_its_ends_in_any_of_its_files(checkpoint: Path) -> None:
    tokenizer = load_tokenizer(checkpoint)
    assert tokenizer.bos_id == 3
    assert tokenizer.eos_ids == {1, 2}


def test_a_prompt_is_never_cut_by_the_files_own_truncation(checkpoint: Path) -> None:
    assert load_tokenizer(checkpoint).encode("aaaa") == [0, 0, 0, 0]


def test_a_template_file_goes_before_the_configuration(checkpoint: Path) -> None:
    tokenizer = load_tokenizer(checkpoint)
    old = load_chat_template(checkpoint, tokenizer)
    assert old is not None
    assert old.render([]) == "old"
    (checkpoint / "chat_template.jinja").write_text("{{ bos_token }}new")
    new = load_chat_template(checkpoint, tokenizer)
    assert new is not None
    assert new.render([]) == "<s>new"


def test_the_default_of_several_named_templates_is_taken(checkpoint: Path) -> None:
    named = [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]
    (checkpoint / "tokenizer_config.json").write_text(json.dumps({"chat_template": named}))
    template = load_chat_template(checkpoint, load_tokenizer(checkpoint))
    assert template is not None
    assert template.render([]) == "D"
    (checkpoint / "tokenizer_config.json").write_text("{}")
    assert load_chat_template(checkpoint, load_tokenizer(checkpoint)) is None


def test_a_gguf_vocabulary_ends_at_its_stated_and_its_known_end_tokens() -> None:
    # `<|end|>` is an ordinary token here, so it ends nothing.
    assert load_tokenizer(header()).eos_ids == {1, 2}


def test_a_gguf_without_template_has_none() -> None:
    assert load_chat_template(header(), load_tokenizer(header())) is None


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"ggml__model": "llama"}, "'llama' is not supported"),
        ({"ggml__pre": "tekken"}, "'tekken'"),
        ({"ggml__tokens": 7}, "lacks tokenizer.ggml.tokens"),
        ({"ggml__token_type": [1]}, "4 tokens but 1 token types"),
        ({"ggml__token_type": ["x"] * 4}, "array of integers"),
    ],
)
def test_a_vocabulary_netgain_cannot_use_is_a_model_error(
    fields: dict[str, MetadataValue], reason: str
) -> None:
    with pytest.raises(ModelError, match=reason):
        load_tokenizer(header(**fields))


def test_a_directory_without_tokenizer_is_a_model_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no tokenizer\.json"):
        load_tokenizer(tmp_path)
