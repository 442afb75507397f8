"""Traces that hold when and how long, not what: the text is made, the lengths are exact."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from netgain.lab.conversation import Conversation, Turn
from netgain.lab.workloads.parameters import parameter
from netgain.lab.workloads.prompt_writer import PromptWriter
from netgain.lab.workloads.seeds import stream
from netgain.lab.workloads.traces.trace_file import Rows, TraceError, TraceWorkload


@dataclass(frozen=True, slots=True)
class LengthsRow:
    """One request; `at_s` on the trace's own clock."""

    at_s: float
    prompt_tokens: int
    answer_tokens: int
    request_class: str


@dataclass(frozen=True)
class LengthsTrace(TraceWorkload):
    """Base: `start_s` counts from the earliest request kept."""

    exact: bool = parameter("exact", True, "forbid an earlier end of the answer")

    def conversations(self, writer: PromptWriter, seed: int) -> Iterator[Conversation]:
        """One request each, in order of time."""
        rows = self._kept
        for index, row in enumerate(rows):
            rng = stream(seed, self.name, index)
            written = writer.first_at_least(rng, row.prompt_tokens)
            turn = Turn(
                text=written.text,
                prompt_tokens=written.tokens,
                max_tokens=row.answer_tokens,
                exact_length=self.exact,
            )
            yield Conversation(
                request_class=row.request_class, turns=(turn,), start_s=row.at_s - rows[0].at_s
            )

    @property
    def timed(self) -> bool:
        """The trace says when."""
        return True

    @abstractmethod
    def _read(self) -> Rows[LengthsRow]: ...

    @cached_property
    def _file(self) -> Rows[LengthsRow]:
        return self._read()

    @cached_property
    def _kept(self) -> list[LengthsRow]:
        rows = [row for row in self._file.rows if self._usable(row)][: self.limit]
        if not rows:
            raise TraceError(self.path, None, f"no request is left ({'; '.join(self._left_out)})")
        return sorted(rows, key=lambda row: row.at_s)

    def _usable(self, row: LengthsRow) -> bool:
        return bool(
            row.prompt_tokens
            and row.answer_tokens
            and (self.longest is None or row.prompt_tokens <= self.longest)
        )

    @property
    def _left_out(self) -> tuple[str, ...]:
        rows = self._file.rows
        empty = sum(not (row.prompt_tokens and row.answer_tokens) for row in rows)
        notes = list(self._file.notes)
        if empty:
            notes.append(f"{empty} requests without prompt or answer tokens (failed ones) left out")
        if self.longest is not None:
            long = sum(row.prompt_tokens > self.longest for row in rows)
            notes.append(f"{long} prompts above {self.longest} tokens left out")
        if any(later.at_s < row.at_s for row, later in pairwise(rows)):
            notes.append("the trace is not in order of time; replayed in order")
        return tuple(notes)

    @property
    def _length(self) -> int:
        return len(self._kept)
