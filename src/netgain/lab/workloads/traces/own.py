"""netgain's own traces: one JSON object a line, described in docs/workloads.md.

{"prompt": "Why is the sky blue?", "max_tokens": 64, "start_s": 0.25, "class": "chat"}
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

import msgspec

from netgain.lab.conversation import NO_FIELDS, Conversation, Turn
from netgain.lab.workloads.parameters import nearest
from netgain.lab.workloads.prompt_writer import PromptWriter, Written
from netgain.lab.workloads.seeds import stream
from netgain.lab.workloads.traces.trace_file import (
    Rows,
    TraceError,
    TraceWorkload,
    numbered_lines,
    read_rows,
)


class OwnMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One message of a line's conversation."""

    role: Literal["system", "user"]
    content: str


class OwnRow(msgspec.Struct, frozen=True, rename={"request_class": "class"}):
    """One line: exactly one of `prompt`, `messages`, `input_tokens`.

    `messages` are an optional system message and one user message a turn. `input_tokens` asks for
    a made prompt of that length. `max_tokens` goes for every turn.
    """

    prompt: str | None = None
    messages: tuple[OwnMessage, ...] = ()
    input_tokens: int | None = None
    max_tokens: int = 128
    exact_length: bool = False
    start_s: float | None = None
    think_s: float = 0.0
    request_class: str = "trace"
    fields: msgspec.Raw = NO_FIELDS


_KNOWN: Final = tuple(field.encode_name for field in msgspec.structs.fields(OwnRow))


@dataclass(frozen=True)
class OwnTrace(TraceWorkload):
    """Prompts word by word, or lengths."""

    name = "jsonl"
    about = "netgain's own trace (JSONL): prompts, conversations or lengths, with or without times"

    def conversations(self, writer: PromptWriter, seed: int) -> Iterator[Conversation]:
        """One a line, in order of time; those with a first prompt above `max-in` are left out."""
        for index, row in enumerate(self._kept):
            first, later = self._written(writer, seed, index, row)
            if self.longest is not None and (first.tokens or 0) > self.longest:
                writer.left_out += 1
                continue
            yield Conversation(
                request_class=row.request_class,
                turns=tuple(
                    Turn(
                        text=written.text,
                        prompt_tokens=written.tokens,
                        max_tokens=row.max_tokens,
                        exact_length=row.exact_length,
                        think_s=row.think_s if number else 0.0,
                    )
                    for number, written in enumerate((first, *later))
                ),
                start_s=row.start_s,
                system=first.system,
                fields=row.fields,
            )

    @property
    def distinct_by_seed(self) -> bool:
        """Where the trace holds lengths only."""
        return all(row.input_tokens is not None for row in self._file.rows)

    @property
    def timed(self) -> bool:
        """Where its lines have `start_s`."""
        return self._file.rows[0].start_s is not None

    def _written(
        self, writer: PromptWriter, seed: int, index: int, row: OwnRow
    ) -> tuple[Written, list[Written]]:
        if row.input_tokens is not None:
            rng = stream(seed, self.name, index)
            return writer.first_at_least(rng, row.input_tokens), []
        if row.prompt is not None:
            return writer.given_first(row.prompt), []
        system = row.messages[0].content if row.messages[0].role == "system" else None
        texts = [message.content for message in row.messages if message.role == "user"]
        return writer.given_first(texts[0], system), [writer.given_later(t) for t in texts[1:]]

    @cached_property
    def _file(self) -> Rows[OwnRow]:
        lines = numbered_lines(self.path)
        rows = read_rows(self.path, lines, _row, skip_bad_lines=self.skip_bad_lines)
        with_time = sum(row.start_s is not None for row in rows.rows)
        if with_time not in (0, len(rows.rows)):
            raise TraceError(
                self.path,
                None,
                f"{with_time} of {len(rows.rows)} lines have start_s: give it to all or to none",
            )
        return rows

    @cached_property
    def _kept(self) -> list[OwnRow]:
        return sorted(self._file.rows[: self.limit], key=lambda row: row.start_s or 0.0)

    @property
    def _left_out(self) -> tuple[str, ...]:
        rows = self._file.rows
        notes = list(self._file.notes)
        times = [row.start_s or 0.0 for row in rows]
        if times != sorted(times):
            notes.append("the trace is not in order of time; replayed in order")
        return tuple(notes)

    @property
    def _length(self) -> int:
        return len(self._kept)


def _row(text: str) -> OwnRow:
    """Raises `ValueError` saying what is wrong with a line."""
    value = msgspec.json.decode(text)
    if not isinstance(value, dict):
        raise ValueError("must be a JSON object")
    for key in value:
        if key not in _KNOWN:
            raise ValueError(f"unknown field {key!r}{nearest(key, _KNOWN)}")
    row = msgspec.json.decode(text, type=OwnRow)
    asked = [row.prompt is not None, bool(row.messages), row.input_tokens is not None]
    if sum(asked) != 1:
        raise ValueError("needs exactly one of prompt, messages and input_tokens")
    if row.prompt == "":
        raise ValueError("prompt is empty")
    if row.max_tokens < 1 or (row.input_tokens is not None and row.input_tokens < 1):
        raise ValueError("max_tokens and input_tokens must be at least 1")
    if not (0 <= (row.start_s or 0.0) < float("inf") and 0 <= row.think_s < float("inf")):
        raise ValueError("start_s and think_s must not be negative")
    roles = [message.role for message in row.messages]
    if row.messages and ("user" not in roles or "system" in roles[1:]):
        raise ValueError("messages are an optional system message, then user messages, one a turn")
    if not isinstance(msgspec.json.decode(row.fields), dict):
        raise ValueError("fields must be a JSON object")
    return row
