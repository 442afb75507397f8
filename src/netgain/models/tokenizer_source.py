"""Finds a checkpoint's tokenizer: in a GGUF header or beside safetensors. No torch."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from netgain.errors import ModelError
from netgain.models.checkpoint import Checkpoint
from netgain.models.gguf_file import GGUFHeader, MetadataValue, read_header
from netgain.text.tokenizer import Tokenizer, TokenType

_EOS_KEYS: Final = (
    "tokenizer.ggml.eos_token_id",
    "tokenizer.ggml.eot_token_id",
    "tokenizer.ggml.eom_token_id",
)
# Control tokens that end a turn or a document in every vocabulary that has them. Checkpoints often
# name only one of theirs as the end; llama.cpp applies the same list.
_END_TOKENS: Final = frozenset(
    {
        "<|endoftext|>",
        "<|im_end|>",
        "<|end|>",
        "<|eot_id|>",
        "<|eom_id|>",
        "<|end_of_text|>",
        "<end_of_turn>",
    }
)


def load_tokenizer(source: Path | GGUFHeader) -> Tokenizer:
    """The tokenizer of a `.gguf` file (or its header, already read) or of a checkpoint directory.

    Raises `ModelError` where there is none or it is of a kind netgain does not support.
    """
    if isinstance(source, GGUFHeader):
        return _from_gguf(source)
    if source.is_dir():
        return _from_directory(source)
    return _from_gguf(read_header(source))


def end_token_ids(checkpoint: Checkpoint) -> frozenset[int]:
    """Every token that ends an answer: those the config names and the vocabulary's well-known."""
    if checkpoint.header is None:
        return frozenset(checkpoint.eos_ids)
    return frozenset(checkpoint.eos_ids) | _gguf_end_ids(checkpoint.header)


def _gguf_end_ids(header: GGUFHeader) -> frozenset[int]:
    fields = header.metadata
    tokens = _strings(header, "tokenizer.ggml.tokens")
    types = _integers(header, "tokenizer.ggml.token_type", default=[TokenType.NORMAL] * len(tokens))
    stated_ends = {_token_id(fields, key, len(tokens)) for key in _EOS_KEYS} - {None}
    known_ends = {
        id_
        for id_, (token, kind) in enumerate(zip(tokens, types, strict=False))
        if kind == TokenType.CONTROL and token in _END_TOKENS
    }
    return frozenset(id_ for id_ in stated_ends | known_ends if id_ is not None)


def _from_gguf(header: GGUFHeader) -> Tokenizer:
    fields = header.metadata
    kind = fields.get("tokenizer.ggml.model")
    if kind != "gpt2":
        raise ModelError(
            f"{header.path}: tokenizer model {kind!r} is not supported (gpt2, which is byte-level "
            "BPE, is); a checkpoint directory with tokenizer.json works instead"
        )
    tokens = _strings(header, "tokenizer.ggml.tokens")
    types = _integers(header, "tokenizer.ggml.token_type", default=[TokenType.NORMAL] * len(tokens))
    return Tokenizer.from_bpe(
        tokens,
        _strings(header, "tokenizer.ggml.merges"),
        types,
        str(fields.get("tokenizer.ggml.pre", "gpt-2")),
        bos_id=_token_id(fields, "tokenizer.ggml.bos_token_id", len(tokens)),
        eos_ids=_gguf_end_ids(header),
        add_bos=fields.get("tokenizer.ggml.add_bos_token") is True,
    )


def _strings(header: GGUFHeader, key: str) -> list[str]:
    value = header.metadata.get(key)
    if not isinstance(value, list):
        raise ModelError(f"{header.path}: the GGUF metadata lacks {key}")
    return [item if isinstance(item, str) else str(item) for item in value]


def _integers(header: GGUFHeader, key: str, default: list[int]) -> list[int]:
    value = header.metadata.get(key)
    if value is None:
        return default
    numbers = [item for item in value if isinstance(item, int)] if isinstance(value, list) else []
    if not isinstance(value, list) or len(numbers) != len(value):
        raise ModelError(f"{header.path}: {key} must be an array of integers")
    return numbers


def _token_id(fields: Mapping[str, MetadataValue], key: str, vocab_size: int) -> int | None:
    value = fields.get(key)
    # 0xFFFFFFFF is how some converters write "none".
    return value if isinstance(value, int) and 0 <= value < vocab_size else None


def _from_directory(directory: Path) -> Tokenizer:
    file = directory / "tokenizer.json"
    if not file.is_file():
        raise ModelError(f"{directory}: holds no tokenizer.json")
    names = read_json(directory / "tokenizer_config.json")
    config = read_json(directory / "config.json")
    generation = read_json(directory / "generation_config.json")
    ends: list[str | int] = []
    for stated in (
        generation.get("eos_token_id"),
        config.get("eos_token_id"),
        token_text(names.get("eos_token")),
    ):
        choices = stated if isinstance(stated, list) else [stated]
        ends += [end for end in choices if isinstance(end, (int, str))]
    return Tokenizer.from_file(file, bos_token=token_text(names.get("bos_token")), eos_tokens=ends)


def token_text(value: object) -> str | None:
    """A token of tokenizer_config.json: a string, or an object with its `content`."""
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else None


def read_json(path: Path) -> dict[str, object]:
    """A JSON object from a checkpoint directory, empty where the file is absent.

    Raises `ModelError` for a file that is not a JSON object.
    """
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: not readable as JSON: {error}") from error
    if not isinstance(value, dict):
        raise ModelError(f"{path}: must hold a JSON object")
    return value
