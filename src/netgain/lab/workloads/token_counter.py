"""Counts tokens as the measured server does; without a tokenizer, says so."""

import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Final, Protocol, TypeAlias

Message: TypeAlias = Mapping[str, str]
"""`role` and `content`."""

_PIECE: Final = re.compile(r"\w+|[^\w\s]")


class TokenCounter(Protocol):
    """Token ids of texts and conversations; only their number and their equality matter."""

    @property
    def exact(self) -> bool:
        """Whether the ids are the target's."""
        ...

    @property
    def description(self) -> str:
        """For reports."""
        ...

    def text_ids(self, text: str) -> Sequence[int]:
        """Of a text alone."""
        ...

    def prompt_ids(self, text: str) -> Sequence[int]:
        """As `/v1/completions` reads a prompt: with what the model expects around it."""
        ...

    def chat_ids(
        self, messages: Sequence[Message], *, add_generation_prompt: bool = True
    ) -> Sequence[int]:
        """As `/v1/chat/completions` reads a conversation. Raises `NetgainError` if it refuses."""
        ...


class WordCounter:
    """For a target whose tokenizer is not at hand: a word is one token, a template none."""

    exact: Final = False
    description: Final = (
        "approximate: one token a word, no template (no tokenizer at hand: --tokenizer names one)"
    )

    def text_ids(self, text: str) -> Sequence[int]:
        """One id a word or punctuation mark."""
        return [zlib.crc32(piece.encode()) for piece in _PIECE.findall(text)]

    def prompt_ids(self, text: str) -> Sequence[int]:
        """As the text alone."""
        return self.text_ids(text)

    def chat_ids(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = True,  # noqa: ARG002 - the protocol's
    ) -> Sequence[int]:
        """The texts of all messages."""
        return [id_ for message in messages for id_ in self.text_ids(message["content"])]
