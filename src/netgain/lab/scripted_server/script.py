"""What the scripted server does with a request, as data."""

from enum import StrEnum

import msgspec

DEFAULT_TOKENS = 16


class EventKind(StrEnum):
    """What one server-sent event holds."""

    ROLE = "role"
    """A choice with the assistant's role and no content."""
    CONTENT = "content"
    REASONING = "reasoning"
    TOOL_CALL = "tool_call"
    EMPTY = "empty"
    """A choice with empty content."""
    FINISH = "finish"
    """A choice with a finish reason and no content."""
    USAGE = "usage"
    """No choice; the usage of all tokens so far."""
    ERROR = "error"
    """An error in the stream, its message the event's `text`."""
    COMMENT = "comment"
    """A comment of the event stream, as used to keep connections alive."""
    DONE = "done"
    """`[DONE]`."""
    RAW = "raw"
    """The bytes of `text` as they are, framing included."""


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event of a stream.

    `after_s` passes since the write before it (the first: since the headers); 0 puts it into the
    same packet. `tokens` it carries, as `text`, or else so many times the script's `word`; only
    content, reasoning and tool calls carry any.
    With `cut_at` only so many of its bytes are written then, and the rest, with what follows in the
    same packet, `cut_s` later. `finish_reason` ends the choice within an event of content.
    """

    kind: EventKind = EventKind.CONTENT
    after_s: float = 0.0
    tokens: int = 1
    text: str | None = None
    cut_at: int | None = None
    cut_s: float = 0.0
    finish_reason: str | None = None

    @property
    def carried(self) -> int:
        """Its tokens, by kind."""
        return self.tokens if self.kind in _CARRIERS else 0


_CARRIERS = (EventKind.CONTENT, EventKind.REASONING, EventKind.TOOL_CALL)


class UsageMode(StrEnum):
    """When a stream says how many tokens it has."""

    ASKED = "asked"
    """As `stream_options` ask: `include_usage` at the end, `continuous_usage_stats` in all."""
    NEVER = "never"
    FINAL = "final"
    RUNNING = "running"


class Ending(StrEnum):
    """How an answer ends."""

    DONE = "done"
    """With `[DONE]`, and whole."""
    UNSAID = "unsaid"
    """Whole, but without `[DONE]`."""
    ERROR = "error"
    """With an error event and `[DONE]`."""
    DISCONNECT = "disconnect"
    """The connection is closed before the answer is whole, `gap_s` after the last packet."""
    STALL = "stall"
    """Nothing more comes, and the connection stays open."""


class Script(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request's treatment. Times are seconds.

    The status and headers come `headers_s` after the whole request was read. A `status` other than
    200 is answered with an error of `message` at once.

    A stream consists of `events`, if there are any, exactly as they are. Otherwise it is regular:
    the first event `first_s` after the headers; in a chat that is one with the role only, unless
    `role` is false, and the first token comes `role_gap_s` after it. `tokens` (None: as many as the
    request allows) come `tokens_per_event` to an event and `events_per_write` events to a packet,
    packets `gap_s` apart, the first `reasoning_tokens` of them as reasoning; the finish reason
    comes with the last packet (in the event of the last token if `finish_with_last`), the usage
    and `[DONE]` too.

    A request that is not streamed gets the same content at the time of the stream's end.

    `usage_error` is added to the completion tokens that usage claims. `logprobs` puts an entry for
    every token into the events whether or not it was asked for. `refuses` names fields of the body
    (`stream_options.continuous_usage_stats` too) that are answered 400.
    """

    status: int = 200
    message: str = "as the script says"
    headers_s: float = 0.0
    first_s: float = 0.0
    role: bool = True
    role_gap_s: float = 0.0
    gap_s: float = 0.0
    tokens: int | None = None
    tokens_per_event: int = 1
    events_per_write: int = 1
    reasoning_tokens: int = 0
    finish_reason: str = "length"
    finish_with_last: bool = False
    word: str = " a"
    events: tuple[Event, ...] = ()
    usage: UsageMode = UsageMode.ASKED
    usage_error: int = 0
    cached_tokens: int | None = None
    logprobs: bool = False
    ending: Ending = Ending.DONE
    crlf: bool = False
    close_delimited: bool = False
    """The body's end is the connection's, without length or chunks."""
    refuses: tuple[str, ...] = ()


def events_of(script: Script, chat: bool, max_tokens: int | None, final_usage: bool) -> list[Event]:
    """A stream's events, all of them: the script's own, or a regular stream's."""
    if script.events:
        return list(script.events)
    events: list[Event] = []
    wait_s = script.first_s
    if chat and script.role:
        events.append(Event(kind=EventKind.ROLE, after_s=wait_s))
        wait_s = script.role_gap_s
    tokens = script.tokens if script.tokens is not None else (max_tokens or DEFAULT_TOKENS)
    sent = written = 0
    while sent < tokens:
        reasoning = sent < script.reasoning_tokens
        until = script.reasoning_tokens if reasoning else tokens
        count = min(script.tokens_per_event, until - sent)
        kind = EventKind.REASONING if reasoning else EventKind.CONTENT
        sent += count
        last = sent == tokens and script.finish_with_last
        reason = script.finish_reason if last else None
        events.append(Event(kind=kind, after_s=wait_s, tokens=count, finish_reason=reason))
        written += 1
        wait_s = 0.0 if written % script.events_per_write else script.gap_s
    if script.ending in (Ending.DONE, Ending.UNSAID):
        if not (tokens and script.finish_with_last):
            events.append(Event(kind=EventKind.FINISH, finish_reason=script.finish_reason))
        if final_usage:
            events.append(Event(kind=EventKind.USAGE))
    if script.ending is Ending.ERROR:
        events.append(Event(kind=EventKind.ERROR, after_s=wait_s, text=script.message))
    if script.ending in (Ending.DONE, Ending.ERROR):
        events.append(Event(kind=EventKind.DONE))
    return events
