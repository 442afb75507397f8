"""What OpenAI-compatible servers answer, as far as it is looked at."""

import msgspec

from netgain.lab.record import Usage

_NULL = msgspec.Raw(b"null")


class PromptDetails(msgspec.Struct, frozen=True):
    """Details of the prompt's tokens."""

    cached_tokens: int | None = None


class CompletionDetails(msgspec.Struct, frozen=True):
    """Details of the answer's tokens."""

    reasoning_tokens: int | None = None


class UsageFormat(msgspec.Struct, frozen=True):
    """Tokens so far, or of the whole answer."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: CompletionDetails | None = None

    def as_usage(self) -> Usage:
        """As a record keeps it."""
        prompt, completion = self.prompt_tokens_details, self.completion_tokens_details
        return Usage(
            self.prompt_tokens or 0,
            self.completion_tokens or 0,
            prompt.cached_tokens if prompt else None,
            completion.reasoning_tokens if completion else None,
        )


class FunctionFormat(msgspec.Struct, frozen=True):
    """A function's name and arguments, or the next piece of them."""

    name: str | None = None
    arguments: str | None = None


class ToolCallFormat(msgspec.Struct, frozen=True):
    """A call of a tool, or the next piece of one."""

    function: FunctionFormat | None = None


class LogprobsFormat(msgspec.Struct, frozen=True):
    """An entry a token: `content` in a chat, `tokens` in a completion."""

    content: list[msgspec.Raw] | None = None
    tokens: list[msgspec.Raw] | None = None

    @property
    def count(self) -> int:
        """Of tokens."""
        return len(self.content or self.tokens or ())


class MessageFormat(msgspec.Struct, frozen=True):
    """A chat's message, or what an event adds to it. Servers differ in reasoning's name."""

    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[ToolCallFormat] | None = None

    @property
    def said(self) -> str:
        """What is no reasoning and no tool call."""
        return (self.content or "") + (self.refusal or "")

    @property
    def thought(self) -> str:
        """The reasoning."""
        return self.reasoning_content or self.reasoning or ""

    @property
    def called(self) -> str:
        """Names and arguments of tool calls."""
        functions = [call.function for call in self.tool_calls or () if call.function]
        return "".join((f.name or "") + (f.arguments or "") for f in functions)


class ChoiceFormat(msgspec.Struct, frozen=True):
    """An answer, or what an event adds to it: `text` in a completion, else one of the two."""

    index: int = 0
    text: str | None = None
    delta: MessageFormat | None = None
    message: MessageFormat | None = None
    finish_reason: str | None = None
    logprobs: LogprobsFormat | None = None


class NetgainFormat(msgspec.Struct, frozen=True):
    """netgain's own part."""

    ledger: msgspec.Raw = _NULL


class ErrorFormat(msgspec.Struct, frozen=True):
    """An error; the message stands in one of several places, by server."""

    error: "str | ErrorDetail | None" = None
    message: str | None = None
    detail: object = None
    object: str | None = None

    @property
    def said(self) -> str | None:
        """The message, wherever it stands."""
        if isinstance(self.error, str):
            return self.error
        if self.error is not None:
            return self.error.message or "an error without a message"
        if self.message is not None:
            return self.message
        return None if self.detail is None else str(self.detail)


class ErrorDetail(msgspec.Struct, frozen=True):
    """OpenAI's form of an error."""

    message: str | None = None
    param: str | None = None


class AnswerFormat(msgspec.Struct, frozen=True):
    """A whole answer, or one event of a stream."""

    id: str | None = None
    choices: list[ChoiceFormat] | None = None
    usage: UsageFormat | None = None
    netgain: NetgainFormat | None = None
    error: msgspec.Raw = _NULL
    object: str | None = None

    @property
    def is_error(self) -> bool:
        """Whether it is an error instead, in OpenAI's form or in vLLM's old one."""
        return self.error != _NULL or self.object == "error"
