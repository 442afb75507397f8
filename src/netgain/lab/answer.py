"""An answer as content: read after it ended, from the pieces that were stamped as they came."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from netgain.lab.answer_format import AnswerFormat, ChoiceFormat, ErrorFormat
from netgain.lab.event_stream import DONE, stream_events
from netgain.lab.record import NO_LEDGER, ErrorKind, Failure, Usage

_ANSWER: Final = msgspec.json.Decoder(AnswerFormat)
_ERROR: Final = msgspec.json.Decoder(ErrorFormat)
_LONGEST_MESSAGE: Final = 500


@dataclass(slots=True)
class ContentEvent:
    """An event that carried content. `texts` are what it added, by choice."""

    at_s: float
    reasoning: bool
    texts: tuple[tuple[int, str], ...]
    logprobs: int
    usage_tokens: int | None
    """The server's running count at this event."""


@dataclass(slots=True)
class Answer:
    """What was said, when. Times are those of the pieces it came in."""

    streamed: bool
    content: list[ContentEvent] = field(default_factory=list)
    empty_s: list[float] = field(default_factory=list)
    """Of events with choices that carried no content."""
    first_event_s: float | None = None
    last_choice_s: float | None = None
    logprobs: int = 0
    """Entries in all events, those without content too."""
    usage: Usage | None = None
    finish_reason: str | None = None
    id: str | None = None
    ledger: msgspec.Raw = field(default_factory=lambda: NO_LEDGER)
    text: str = ""
    """What the first choice says, reasoning and tool calls left out."""
    done: bool = False
    """Whether it said itself that it is whole."""
    failure: Failure | None = None


def read_stream(parts: Sequence[tuple[float, bytes]]) -> Answer:
    """From a body of server-sent events; what cannot be read is a failure, the rest is kept."""
    answer = Answer(streamed=True)
    texts: list[str] = []
    for at_s, data in stream_events(parts):
        if data == DONE:
            answer.done = True
            break
        try:
            event = _ANSWER.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            answer.failure = answer.failure or _malformed(f"an event cannot be read: {error}", data)
            continue
        if event.is_error:
            answer.failure = answer.failure or Failure(ErrorKind.SERVER, error_message(data))
            continue
        _add(answer, event, at_s, texts)
    answer.text = "".join(texts)
    answer.done = answer.done or answer.finish_reason is not None
    return answer


def read_whole(parts: Sequence[tuple[float, bytes]]) -> Answer:
    """From a body that is one object of JSON: all of it came with its last piece."""
    answer = Answer(streamed=False, done=True)
    data = b"".join(part for _, part in parts)
    try:
        event = _ANSWER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        answer.failure = _malformed(f"the answer cannot be read: {error}", data)
        return answer
    if event.is_error:
        answer.failure = Failure(ErrorKind.SERVER, error_message(data))
        return answer
    if not event.choices:
        answer.failure = _malformed("the answer has no choices", data)
    texts: list[str] = []
    _add(answer, event, parts[-1][0] if parts else 0.0, texts)
    answer.text = "".join(texts)
    return answer


def error_message(data: bytes) -> str:
    """The message in an error's body, in whatever form; else the body itself, shortened."""
    try:
        said = _ERROR.decode(data).said
    except (msgspec.DecodeError, UnicodeDecodeError):
        said = None
    return _shortened(said if said is not None else data.decode("utf-8", "replace"))


def _add(answer: Answer, event: AnswerFormat, at_s: float, texts: list[str]) -> None:
    answer.id = answer.id or event.id
    if event.usage is not None:
        answer.usage = event.usage.as_usage()
    if event.netgain is not None:
        answer.ledger = msgspec.Raw(bytes(event.netgain.ledger))  # a copy: the whole body may go
    if not event.choices:
        return
    if answer.first_event_s is None:
        answer.first_event_s = at_s
    answer.last_choice_s = at_s
    added: list[tuple[int, str]] = []
    reasoning_only, logprobs = True, 0
    for choice in event.choices:
        answer.finish_reason = choice.finish_reason or answer.finish_reason
        logprobs += choice.logprobs.count if choice.logprobs else 0
        said, thought, called = _content(choice)
        if said or called:
            reasoning_only = False
        if said and choice.index == 0:
            texts.append(said)
        if said or thought or called:
            added.append((choice.index, thought + said + called))
    answer.logprobs += logprobs
    if not added and not _calls(event.choices):
        answer.empty_s.append(at_s)
        return
    counted = event.usage.completion_tokens if event.usage else None
    only_thought = bool(added) and reasoning_only
    answer.content.append(ContentEvent(at_s, only_thought, tuple(added), logprobs, counted))


def _content(choice: ChoiceFormat) -> tuple[str, str, str]:
    """What a choice says, thinks and calls."""
    message = choice.delta or choice.message
    if message is None:
        return choice.text or "", "", ""
    return message.said, message.thought, message.called


def _calls(choices: Sequence[ChoiceFormat]) -> bool:
    """Whether a tool is called, be it without name and arguments."""
    messages = [choice.delta or choice.message for choice in choices]
    return any(message is not None and message.tool_calls for message in messages)


def _malformed(what: str, data: bytes) -> Failure:
    return Failure(
        ErrorKind.MALFORMED, _shortened(f"{what}; it begins {data[:80].decode('utf-8', 'replace')}")
    )


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST_MESSAGE else text[: _LONGEST_MESSAGE - 1] + "…"
