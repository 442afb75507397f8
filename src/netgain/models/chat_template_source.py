"""Finds a checkpoint's chat template: in a GGUF header or in a checkpoint directory. No torch."""

from pathlib import Path

from netgain.errors import ModelError
from netgain.models.gguf_file import GGUFHeader, read_header
from netgain.models.tokenizer_source import read_json, token_text
from netgain.text.chat_template import ChatTemplate
from netgain.text.tokenizer import Tokenizer


def load_chat_template(source: Path | GGUFHeader, tokenizer: Tokenizer) -> ChatTemplate | None:
    """The template of a `.gguf` file (or its header) or a directory; None where it has none.

    Raises `ModelError` for a template that cannot be read or compiled.
    """
    if isinstance(source, Path):
        if source.is_dir():
            return _from_directory(source)
        source = read_header(source)
    text = source.metadata.get("tokenizer.chat_template")
    if not isinstance(text, str):
        return None
    end = source.metadata.get("tokenizer.ggml.eos_token_id")
    return ChatTemplate(
        text,
        None if tokenizer.bos_id is None else tokenizer.token(tokenizer.bos_id),
        tokenizer.token(end) if isinstance(end, int) else None,
    )


def _from_directory(directory: Path) -> ChatTemplate | None:
    names = read_json(directory / "tokenizer_config.json")
    file = directory / "chat_template.jinja"
    try:
        text = file.read_text(encoding="utf-8") if file.is_file() else names.get("chat_template")
    except (OSError, ValueError) as error:
        raise ModelError(f"{file}: cannot be read: {error}") from error
    if isinstance(text, list):
        text = _default_of(text)
    if not isinstance(text, str):
        return None
    return ChatTemplate(
        text, token_text(names.get("bos_token")), token_text(names.get("eos_token"))
    )


def _default_of(choices: list[object]) -> object:
    """Older files hold a list of named templates."""
    for choice in choices:
        if isinstance(choice, dict) and choice.get("name") == "default":
            return choice.get("template")
    return None
