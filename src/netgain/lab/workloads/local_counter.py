"""Counts with a tokenizer on this machine, no torch and no server needed."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from netgain.errors import ModelError
from netgain.lab.workloads.token_counter import Message
from netgain.models.chat_template_source import load_chat_template
from netgain.models.gguf_file import GGUFHeader, read_header
from netgain.models.store import ensure
from netgain.models.tokenizer_source import load_tokenizer
from netgain.text.chat_template import ChatTemplate
from netgain.text.rendered import render_quoted
from netgain.text.tokenizer import Tokenizer


class LocalCounter:
    """Reads texts and conversations exactly as netgain's server does."""

    exact: Final = True

    def __init__(self, tokenizer: Tokenizer, template: ChatTemplate | None, name: str) -> None:
        self._tokenizer = tokenizer
        self._template = template
        self.description: Final = f"exact: tokenizer of {name}"

    @classmethod
    def load(cls, model: str | Path) -> "LocalCounter":
        """From a model's name, a GGUF file or a checkpoint folder.

        A folder needs no weights: `tokenizer.json`, and `tokenizer_config.json` for a chat
        template, are enough. Raises `ModelError`.
        """
        folder = Path(model).expanduser()
        source: Path | GGUFHeader
        if (folder / "tokenizer.json").is_file():
            source = folder
        else:
            path = ensure(model)
            source = path if path.is_dir() else read_header(path)
        tokenizer = load_tokenizer(source)
        return cls(tokenizer, load_chat_template(source, tokenizer), str(model))

    def text_ids(self, text: str) -> Sequence[int]:
        """Control tokens written in the text count as text."""
        marked = any(token in text for token in self._tokenizer.special_tokens)
        return self._tokenizer.encode(text, parse_special=not marked)

    def prompt_ids(self, text: str) -> Sequence[int]:
        """With a beginning-of-sequence token where the model expects one."""
        return self._tokenizer.encode(text, add_special_tokens=True)

    def chat_ids(
        self, messages: Sequence[Message], *, add_generation_prompt: bool = True
    ) -> Sequence[int]:
        """Through the model's own template. Raises `ModelError` where it has none."""
        if self._template is None:
            raise ModelError(
                f"{self.description.removeprefix('exact: ')} has no chat template: "
                "send completions, or give a tokenizer folder with a template"
            )
        rendered = render_quoted(
            self._template,
            messages,
            self._tokenizer.special_tokens,
            add_generation_prompt=add_generation_prompt,
        )
        return self._tokenizer.encode_quoted(rendered.text, rendered.quoted)
