"""Response bodies, as the official client reads them."""

from collections.abc import Iterable
from typing import Literal

import msgspec

from netgain.engine.client import EngineState
from netgain.engine.messages import LoadPart
from netgain.ledger.record import LedgerJSON
from netgain.server.generation import Generation
from netgain.server.ledger_book import ClosedLedger


class PromptDetails(msgspec.Struct, frozen=True):
    """`cached_tokens`: prompt tokens served by the prefix cache."""

    cached_tokens: int


class Usage(msgspec.Struct, frozen=True):
    """Tokens of an exchange, over all its choices."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails


class LedgerPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """netgain's own part of a response: one ledger, or one a choice where there are several."""

    ledger: LedgerJSON | None = None
    ledgers: tuple[LedgerJSON, ...] = ()


class CompletionLogprobs(msgspec.Struct, frozen=True):
    """One entry a token; `top_logprobs` by text, the token itself always among them.

    A token that is no whole character reads `bytes:\\xf0\\x9f`. `text_offset`: where the token's
    text begins in the choice's, in characters.
    """

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class PromptLogprob(msgspec.Struct, frozen=True):
    """One prompt token, or an alternative to it; rank 1 is the likeliest."""

    logprob: float
    rank: int
    decoded_token: str


class CompletionChoice(msgspec.Struct, frozen=True):
    """One answer."""

    index: int
    text: str
    finish_reason: str | None
    logprobs: CompletionLogprobs | None = None
    prompt_logprobs: list[dict[str, PromptLogprob] | None] | msgspec.UnsetType = msgspec.UNSET


class Completion(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer of `/v1/completions`."""

    id: str
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage
    object: Literal["text_completion"]
    netgain: LedgerPart | None = None


class AssistantMessage(msgspec.Struct, frozen=True):
    """What the model said."""

    content: str
    role: Literal["assistant"] = "assistant"
    refusal: None = None


class ChatTopLogprob(msgspec.Struct, frozen=True):
    """An alternative, decoded on its own."""

    token: str
    logprob: float
    bytes: list[int]


class ChatTokenLogprob(msgspec.Struct, frozen=True):
    """A token of the answer; `bytes` is what it added to the text."""

    token: str
    logprob: float
    bytes: list[int]
    top_logprobs: list[ChatTopLogprob]


class ChatLogprobs(msgspec.Struct, frozen=True):
    """One entry a token."""

    content: list[ChatTokenLogprob]
    refusal: None = None


class ChatChoice(msgspec.Struct, frozen=True):
    """One answer."""

    index: int
    message: AssistantMessage
    finish_reason: str | None
    logprobs: ChatLogprobs | None = None
    prompt_logprobs: list[dict[str, PromptLogprob] | None] | msgspec.UnsetType = msgspec.UNSET


class ChatCompletion(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer of `/v1/chat/completions`."""

    id: str
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage
    object: Literal["chat.completion"]
    netgain: LedgerPart | None = None


class CompletionChunk(msgspec.Struct, frozen=True, omit_defaults=True):
    """One event of a streamed completion; `usage` and `netgain` come with the last."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage | None = None
    netgain: LedgerPart | None = None


class ChatDelta(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an event adds to a message."""

    role: Literal["assistant"] | msgspec.UnsetType = msgspec.UNSET
    content: str = ""


class ChatChunkChoice(msgspec.Struct, frozen=True):
    """What an event adds to an answer."""

    index: int
    delta: ChatDelta
    finish_reason: str | None
    logprobs: ChatLogprobs | None = None
    prompt_logprobs: list[dict[str, PromptLogprob] | None] | msgspec.UnsetType = msgspec.UNSET


class ChatChunk(msgspec.Struct, frozen=True, omit_defaults=True):
    """One event of a streamed chat; `usage` and `netgain` come with the last."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChatChunkChoice]
    usage: Usage | None = None
    netgain: LedgerPart | None = None


class ModelCard(msgspec.Struct, frozen=True):
    """One served model."""

    id: str
    created: int
    max_model_len: int | None
    object: Literal["model"] = "model"
    owned_by: str = "netgain"


class ModelList(msgspec.Struct, frozen=True):
    """The answer of `/v1/models`."""

    data: list[ModelCard]
    object: Literal["list"] = "list"


class Health(msgspec.Struct, frozen=True):
    """The answer of `/health`."""

    engine: EngineState


class Readiness(msgspec.Struct, frozen=True):
    """The answer of `/ready`: the parts of loading that ended, with their seconds."""

    status: EngineState
    loaded: tuple[LoadPart, ...]


class PrefixCacheAnswer(msgspec.Struct, frozen=True):
    """The answer of `/reset_prefix_cache`: how many blocks were forgotten."""

    blocks: int


def usage_of(generations: Iterable[Generation]) -> Usage:
    """The sum over the choices; a prompt counts once, however many samples it has."""
    parts = list(generations)
    prompt = sum(part.prompt_tokens for part in parts)
    completion = sum(part.completion_tokens for part in parts)
    cached = sum(part.cached_tokens for part in parts)
    return Usage(prompt, completion, prompt + completion, PromptDetails(cached))


def ledger_part(ledgers: tuple[ClosedLedger, ...]) -> LedgerPart:
    """The ledgers as clients see them."""
    if len(ledgers) == 1:
        return LedgerPart(ledgers[0].json())
    return LedgerPart(ledgers=tuple(ledger.json() for ledger in ledgers))
