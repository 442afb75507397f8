"""A served model's text side: its tokenizer and chat template."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from netgain.errors import InvalidRequestError
from netgain.server.protocol import ChatMessage, PromptText, prompt_too_long
from netgain.text.chat_template import ChatTemplate
from netgain.text.stream import TextStream
from netgain.text.tokenizer import Tokenizer

_LONG_CHARS: Final = 20_000
"""Above this many characters tokenising takes milliseconds, and other requests' tokens wait."""


class ModelText:
    """Turns prompts into token ids for one model."""

    def __init__(self, tokenizer: Tokenizer, template: ChatTemplate | None) -> None:
        self._tokenizer = tokenizer
        self._template = template
        self._longest_token_bytes = max(
            (len(tokenizer.token(id_) or "") for id_ in range(tokenizer.vocab_size)), default=1
        )
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tokenize")

    def stream(self, stops: Sequence[str]) -> TextStream:
        """A new sequence's way from ids to text."""
        return TextStream(self._tokenizer, stops)

    def render_chat(self, messages: Sequence[ChatMessage]) -> str:
        """The conversation as the model was trained to read it.

        Raises `InvalidRequestError` where the model has no template or it refuses the messages.
        """
        if self._template is None:
            raise InvalidRequestError(
                "this model has no chat template; use /v1/completions", "messages"
            )
        return self._template.render([message.for_template() for message in messages])

    async def tokenize(
        self, prompts: Sequence[PromptText], limits: "PromptLimits", *, templated: bool
    ) -> tuple[tuple[int, ...], ...]:
        """Token ids of each prompt.

        `templated`: the text brings its own special tokens. Raises `ApiError` (400) for prompts
        longer than the limit, empty ones and ids outside the vocabulary.
        """
        chars = 0
        for prompt in prompts:
            if isinstance(prompt, str):
                chars += len(prompt)
                # Tokenising megabytes only to refuse them would keep everybody waiting.
                least = len(prompt) // self._longest_token_bytes
                if least > limits.max_prompt_tokens:
                    raise prompt_too_long(least, limits.max_prompt_tokens, at_least=True)
        if chars > _LONG_CHARS:
            return await asyncio.get_running_loop().run_in_executor(
                self._thread, self._tokenize, prompts, limits, templated
            )
        return self._tokenize(prompts, limits, templated)

    def close(self) -> None:
        """Ends the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _tokenize(
        self, prompts: Sequence[PromptText], limits: "PromptLimits", templated: bool
    ) -> tuple[tuple[int, ...], ...]:
        return tuple(
            limits.check(
                tuple(self._tokenizer.encode(prompt, add_special_tokens=not templated))
                if isinstance(prompt, str)
                else prompt
            )
            for prompt in prompts
        )


@dataclass(frozen=True, slots=True)
class PromptLimits:
    """What the engine can take."""

    max_prompt_tokens: int
    vocab_size: int

    def check(self, ids: tuple[int, ...]) -> tuple[int, ...]:
        """The ids, if an engine may see them. Raises `ApiError` (400)."""
        if not ids:
            raise InvalidRequestError("the prompt has no tokens", "prompt")
        if len(ids) > self.max_prompt_tokens:
            raise prompt_too_long(len(ids), self.max_prompt_tokens)
        if min(ids) < 0 or max(ids) >= self.vocab_size:
            raise InvalidRequestError(
                f"prompt holds a token id outside the vocabulary (0 to {self.vocab_size - 1})",
                "prompt",
            )
        return ids
