"""ShareGPT's conversations as they are usually passed on: one JSON array.

[{"id": "a1", "conversations": [{"from": "human", "value": "Why is the sky blue?"},
                                {"from": "gpt", "value": "Air scatters blue light."}]}]
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from netgain.lab.conversation import Conversation, Turn
from netgain.lab.workloads.parameters import nearest, parameter
from netgain.lab.workloads.prompt_writer import PromptWriter, Written
from netgain.lab.workloads.seeds import stream
from netgain.lab.workloads.traces.trace_file import TraceError, TraceWorkload

_USER: Final = frozenset({"human", "user"})
_ANSWER: Final = frozenset({"gpt", "assistant", "chatgpt", "bing", "bard"})
_SYSTEM: Final = frozenset({"system"})
_BLANK: Final = " \t\r\n"


@dataclass(frozen=True, slots=True)
class Exchange:
    """A user's words and what was answered."""

    asked: str
    answered: str


@dataclass(frozen=True, slots=True)
class SharedConversation:
    """One entry; `exchanges` are questions that have an answer right behind them."""

    system: str | None
    exchanges: tuple[Exchange, ...]


@dataclass(frozen=True, slots=True)
class _File:
    conversations: tuple[SharedConversation, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class ShareGPT(TraceWorkload):
    """Recorded questions; answers are made anew, as long as the recorded ones.

    With `turns` above 1 the server's own answers stand between the questions, not the recorded.
    """

    name = "sharegpt"
    about = "ShareGPT conversations (JSON): recorded questions, answers of the recorded lengths"

    turns: int = parameter("turns", 1, "most turns of a conversation; 0: all it has", least=0)
    shuffle: bool = parameter("shuffle", True, "another order for every seed")
    exact: bool = parameter("exact", True, "forbid an earlier end of the answers")

    def conversations(self, writer: PromptWriter, seed: int) -> Iterator[Conversation]:
        """One an entry; those with a first prompt above `max-in` are left out."""
        order = list(self._kept)
        if self.shuffle:
            stream(seed, self.name).shuffle(order)
        for entry in order:
            exchanges = entry.exchanges[: self.turns or None]
            first = writer.given_first(exchanges[0].asked, entry.system)
            if self.longest is not None and (first.tokens or 0) > self.longest:
                writer.left_out += 1
                continue
            turns = [self._turn(writer, first, exchanges[0])]
            turns += [
                self._turn(writer, writer.given_later(exchange.asked), exchange)
                for exchange in exchanges[1:]
            ]
            yield Conversation(request_class=self.name, turns=tuple(turns), system=first.system)

    @property
    def distinct_by_seed(self) -> bool:
        """Every seed has the same questions."""
        return False

    def _turn(self, writer: PromptWriter, written: Written, exchange: Exchange) -> Turn:
        return Turn(
            text=written.text,
            prompt_tokens=written.tokens,
            max_tokens=max(1, writer.count(exchange.answered)),
            exact_length=self.exact,
        )

    @cached_property
    def _file(self) -> _File:
        return _Reader(self).read()

    @property
    def _kept(self) -> tuple[SharedConversation, ...]:
        return self._file.conversations[: self.limit]

    @property
    def _left_out(self) -> tuple[str, ...]:
        return self._file.notes

    @property
    def _length(self) -> int:
        return len(self._kept)


class _Reader:
    """Goes through the array entry by entry, so that a fault has a line."""

    def __init__(self, trace: ShareGPT) -> None:
        self._path = trace.path
        self._skip = trace.skip_bad_lines
        try:
            self._text = trace.path.read_text(encoding="utf-8-sig")
        except OSError as error:
            raise TraceError(trace.path, None, f"cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            line = trace.path.read_bytes()[: error.start].count(b"\n") + 1
            raise TraceError(trace.path, line, f"not UTF-8 ({error.reason})") from error
        self._line = 1
        self._counted_to = 0

    def read(self) -> _File:
        """All entries. Raises `TraceError`."""
        kept: list[SharedConversation] = []
        bad, empty, first_bad = 0, 0, ""
        for at, value in self._entries():
            try:
                entry = _conversation(value)
            except ValueError as error:
                if not self._skip:
                    raise TraceError(self._path, self._line_of(at), str(error)) from error
                bad += 1
                first_bad = first_bad or f"line {self._line_of(at)}: {error}"
                continue
            if entry.exchanges:
                kept.append(entry)
            else:
                empty += 1
        notes = []
        if bad:
            notes.append(f"{bad} broken entries left out, the first: {first_bad}")
        if empty:
            notes.append(f"{empty} conversations without a question and its answer left out")
        if not kept:
            raise TraceError(self._path, None, f"no usable conversation ({'; '.join(notes)})")
        return _File(tuple(kept), tuple(notes))

    def _entries(self) -> Iterator[tuple[int, object]]:
        """Every value of the array with the place where it begins."""
        decoder = json.JSONDecoder()
        at = self._after_blanks(0)
        if not self._text.startswith("[", at):
            raise TraceError(self._path, None, "must be one JSON array of conversations")
        at = self._after_blanks(at + 1)
        while not self._text.startswith("]", at):
            try:
                value, end = decoder.raw_decode(self._text, at)
            except json.JSONDecodeError as error:
                # What follows cannot be told apart any more: not a line that could be skipped.
                raise TraceError(
                    self._path, None, f"not JSON from line {error.lineno} on: {error.msg}"
                ) from error
            yield at, value
            at = self._after_blanks(end)
            if self._text.startswith(",", at):
                at = self._after_blanks(at + 1)
            elif not self._text.startswith("]", at):
                line = self._line_of(at)
                raise TraceError(self._path, None, f"not JSON from line {line} on: no ',' or ']'")

    def _after_blanks(self, at: int) -> int:
        while at < len(self._text) and self._text[at] in _BLANK:
            at += 1
        return at

    def _line_of(self, at: int) -> int:
        self._line += self._text.count("\n", self._counted_to, at)
        self._counted_to = at
        return self._line


def _conversation(value: object) -> SharedConversation:
    """Raises `ValueError` saying what is wrong with an entry."""
    if not isinstance(value, dict):
        raise ValueError("an entry must be an object with `conversations`")
    messages = value.get("conversations")
    if not isinstance(messages, list):
        raise ValueError("the entry lacks the list `conversations`")
    system: str | None = None
    exchanges: list[Exchange] = []
    asked = ""
    for number, message in enumerate(messages, 1):
        role, text = _message(message, number)
        if role in _SYSTEM:
            system = text if system is None and not exchanges else system
        elif role in _USER:
            asked = text
        elif asked.strip() and text.strip():
            exchanges.append(Exchange(asked, text))
            asked = ""
    return SharedConversation(system, tuple(exchanges))


def _message(value: object, number: int) -> tuple[str, str]:
    if not isinstance(value, dict):
        raise ValueError(f"message {number} must be an object with `from` and `value`")
    role, text = value.get("from"), value.get("value")
    if not isinstance(role, str) or not isinstance(text, str):
        raise ValueError(f"message {number} needs the texts `from` and `value`")
    known = sorted(_USER | _ANSWER | _SYSTEM)
    if role not in known:
        raise ValueError(f"message {number} is from {role!r}{nearest(role, known)}")
    return role, text
