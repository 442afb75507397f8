"""What is kept of every request: raw times and counts, from which every metric is derived.

Times are seconds on one monotonic clock, from the run's beginning. A record is one line of JSON.
"""

from enum import StrEnum

import msgspec

NO_LEDGER = msgspec.Raw(b"null")


class ErrorKind(StrEnum):
    """Why a request has no whole answer."""

    CONNECT = "connect"
    GENERATOR = "generator"
    """The load generator's machine could not make a connection: no fault of the server."""
    TIMEOUT = "timeout"
    REFUSED = "refused"
    """An answer of 429 or 503: the server was full."""
    CLIENT = "client"
    """Any other 4xx: the request was wrong."""
    SERVER = "server"
    """Any other 5xx, or an error event in the stream."""
    DISCONNECTED = "disconnected"
    """The connection ended before the answer did."""
    MALFORMED = "malformed"
    """An answer that is not what the protocol says."""
    CANCELLED = "cancelled"
    """The run ended while the request was under way."""


class Failure(msgspec.Struct, frozen=True):
    """One error, in the server's or the transport's words."""

    kind: ErrorKind
    message: str


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens as the server counted them."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class TokenCounting(StrEnum):
    """Where the token counts of a record's events come from."""

    USAGE = "usage"
    """The server's running usage in every event."""
    LOGPROBS = "logprobs"
    """One logprob entry a token in every event."""
    TOKENIZER = "tokenizer"
    """The client's tokenizer over the text so far."""
    EVENTS = "events"
    """One token an event, scaled to nothing: there was no better way."""


class TokenEvent(msgspec.Struct, frozen=True, array_like=True):
    """One stream event that carried content: when it was read, how many tokens it brought."""

    at_s: float
    tokens: int
    reasoning: bool = False


class RequestRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request as its client saw it.

    `intended_s` when the load wanted it sent, `sent_s` when its last byte was given to the socket.
    `first_byte_s`: the first byte of the answer's body. `first_event_s`: the first event with
    choices, be it empty or only a role (what `vllm bench serve` calls the first token).
    `first_token_s`: the first with content, reasoning or a tool call. `first_output_s`: the first
    that is not reasoning. `last_choice_s`: the last event with choices. `last_token_s`: the last
    with content. `end_s`: the end of the answer, or of the attempt. `events` are those with
    content, `empty_events_s` the times of those with choices but none (a role, a finish reason).
    `streamed` is false for an answer in one piece: all times of its content are that of its last
    byte. `output_tokens` counts by `counting` and may be more than the events' sum (a token without
    text has no event), `usage` is the server's own count, `tokenizer_tokens` the client's
    tokenizer's, before events were scaled to the usage. `prompt_tokens` is the client's count.
    `ledger` is the server's, as JSON; `null` when it offered none.
    """

    index: int
    request_class: str
    conversation: int
    turn: int = 0
    intended_s: float
    sent_s: float | None = None
    first_byte_s: float | None = None
    first_event_s: float | None = None
    first_token_s: float | None = None
    first_output_s: float | None = None
    last_choice_s: float | None = None
    last_token_s: float | None = None
    end_s: float | None = None
    events: tuple[TokenEvent, ...] = ()
    empty_events_s: tuple[float, ...] = ()
    streamed: bool = True
    output_tokens: int = 0
    counting: TokenCounting = TokenCounting.EVENTS
    tokenizer_tokens: int | None = None
    prompt_tokens: int | None = None
    max_tokens: int | None = None
    usage: Usage | None = None
    finish_reason: str | None = None
    status: int | None = None
    request_id: str | None = None
    failure: Failure | None = None
    ledger: msgspec.Raw = NO_LEDGER
    text: str | None = None
