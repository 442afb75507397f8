"""A served model's text side: its tokenizer and chat template."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from netgain.errors import InvalidRequestError
from netgain.server.generation import Prompt
from netgain.server.messages import ChatMessage
from netgain.server.prompts import PromptLimits, PromptText
from netgain.text.chat_template import ChatTemplate
from netgain.text.length import tokens_beyond
from netgain.text.rendered import RenderedChat, render_quoted
from netgain.text.stream import TextStream
from netgain.text.token_trace import TokenTrace
from netgain.text.tokenizer import Tokenizer

_LONG_CHARS: Final = 4_000
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

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's vocabulary."""
        return self._tokenizer

    def stream(self, stops: Sequence[str], min_tokens: int = 0) -> TextStream:
        """A new sequence's way from ids to text; no stop string ends it before `min_tokens`."""
        return TextStream(self._tokenizer, stops, min_tokens)

    def trace(self) -> TokenTrace:
        """A new sequence's account of which token brought which text."""
        return TokenTrace(self._tokenizer)

    def render_chat(
        self,
        messages: Sequence[ChatMessage],
        limits: PromptLimits,
        *,
        parse_special: bool = False,
        add_generation_prompt: bool = True,
    ) -> RenderedChat:
        """The conversation as the model was trained to read it.

        Control tokens written in messages stay text unless `parse_special`. Raises
        `InvalidRequestError` where the model has no template or it refuses the messages, `ApiError`
        (400) where they cannot fit.
        """
        if self._template is None:
            raise InvalidRequestError(
                "this model has no chat template; use /v1/completions", "messages"
            )
        plain = [message.for_template() for message in messages]
        self._check_chars(sum(len(str(one["content"])) for one in plain), limits, "messages")
        return render_quoted(
            self._template,
            plain,
            () if parse_special else self._tokenizer.special_tokens,
            add_generation_prompt=add_generation_prompt,
        )

    async def tokenize(
        self,
        prompts: Sequence[PromptText | RenderedChat],
        limits: PromptLimits,
        field: str,
        *,
        add_special_tokens: bool = True,
    ) -> tuple[Prompt, ...]:
        """Token ids of each prompt, which the client gave as `field`.

        `add_special_tokens`: around plain texts; a rendered conversation brings its own. Raises
        `ApiError` (400) for prompts longer than the limit, empty ones and ids outside the
        vocabulary.
        """
        chars = 0
        quoting = False
        for prompt in prompts:
            text = prompt.text if isinstance(prompt, RenderedChat) else prompt
            quoting |= isinstance(prompt, RenderedChat) and bool(prompt.quoted)
            if isinstance(text, str):
                chars += len(text)
                self._check_chars(len(text), limits, field)
        # The first quoted conversation prepares a second front of the vocabulary.
        if chars > _LONG_CHARS or quoting:
            return await asyncio.get_running_loop().run_in_executor(
                self._thread, self._tokenize, prompts, limits, field, add_special_tokens
            )
        return self._tokenize(prompts, limits, field, add_special_tokens)

    def close(self) -> None:
        """Ends the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _check_chars(self, chars: int, limits: PromptLimits, field: str) -> None:
        """Rendering or tokenising megabytes only to refuse them would keep everybody waiting."""
        least = chars // self._longest_token_bytes
        if least > limits.max_prompt_tokens:
            raise limits.too_long(least, field, at_least=True)

    def _tokenize(
        self,
        prompts: Sequence[PromptText | RenderedChat],
        limits: PromptLimits,
        field: str,
        add_special_tokens: bool,
    ) -> tuple[Prompt, ...]:
        encoded: list[Prompt] = []
        for prompt in prompts:
            self._check_length(prompt, limits, field)
            encoded.append(self._encoded(prompt, add_special_tokens))
            limits.check(encoded[-1].ids, field)
        return tuple(encoded)

    def _check_length(
        self, prompt: PromptText | RenderedChat, limits: PromptLimits, field: str
    ) -> None:
        """Whoever sends megabytes of text is told so for the price of a context's tokens."""
        match prompt:
            case RenderedChat(text, quoted):
                least = tokens_beyond(
                    self._tokenizer, text, limits.max_prompt_tokens, quoted=quoted
                )
            case str():
                least = tokens_beyond(self._tokenizer, prompt, limits.max_prompt_tokens)
            case _:
                return
        if least is not None:
            raise limits.too_long(least, field, at_least=True)

    def _encoded(self, prompt: PromptText | RenderedChat, add_special_tokens: bool) -> Prompt:
        match prompt:
            case RenderedChat(text, quoted):
                return Prompt(tuple(self._tokenizer.encode_quoted(text, quoted)))
            case str():
                ids = self._tokenizer.encode(prompt, add_special_tokens=add_special_tokens)
                return Prompt(tuple(ids), prompt)
            case _:
                return Prompt(prompt)
