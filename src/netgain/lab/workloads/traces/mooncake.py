"""Mooncake's traces (github.com/kvcache-ai/Mooncake), which say what requests share.

    {"timestamp": 3052, "input_length": 7234, "output_length": 794, "hash_ids": [0, 28, ..., 41]}

`timestamp` in milliseconds. `hash_ids`: one a block of 512 prompt tokens, the last block may be
shorter. Ids stand for the block and all before it, so requests that begin with equal ids begin with
equal tokens: here each id becomes a text of exactly a block's tokens.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import msgspec

from netgain.lab.conversation import Conversation, Turn
from netgain.lab.workloads.parameters import parameter
from netgain.lab.workloads.prompt_writer import PromptWriter
from netgain.lab.workloads.seeds import stream
from netgain.lab.workloads.traces.trace_file import (
    Rows,
    TraceError,
    TraceWorkload,
    numbered_lines,
    read_rows,
)


class MooncakeRow(msgspec.Struct, frozen=True):
    """One line; other fields are ignored."""

    timestamp: float
    input_length: int
    output_length: int
    hash_ids: tuple[int, ...]


@dataclass(frozen=True)
class MooncakeTrace(TraceWorkload):
    """One request a line; the blocks they share are shared as text.

    A chat template's lead counts to the first block and its tail to the last, so that the
    boundaries of blocks in the server's prompt are the trace's.
    """

    name = "mooncake"
    about = "Mooncake trace (JSONL): arrival times, lengths, and which blocks prompts share"

    block: int = parameter("block", 512, "prompt tokens a hash id stands for", least=1)
    exact: bool = parameter("exact", True, "forbid an earlier end of the answer")

    def conversations(self, writer: PromptWriter, seed: int) -> Iterator[Conversation]:
        """One request each, in order of time."""
        rows = self._kept
        for row in rows:
            text, tokens = self._prompt(writer, seed, row)
            turn = Turn(
                text=text,
                prompt_tokens=tokens,
                max_tokens=row.output_length,
                exact_length=self.exact,
            )
            yield Conversation(
                request_class=self.name,
                turns=(turn,),
                start_s=(row.timestamp - rows[0].timestamp) / 1000,
            )

    @property
    def timed(self) -> bool:
        """The trace says when."""
        return True

    def _prompt(self, writer: PromptWriter, seed: int, row: MooncakeRow) -> tuple[str, int | None]:
        framing = writer.framing()
        last = row.input_length - self.block * (len(row.hash_ids) - 1)
        sizes = [self.block] * (len(row.hash_ids) - 1) + [last]
        sizes[0] -= framing.lead
        # The tail is the end of the prompt: where the last block is too short for it, it takes the
        # end of the one before.
        cut = framing.tail
        while cut and sizes:
            taken = min(cut, max(sizes[-1], 0))
            sizes[-1] -= taken
            cut -= taken
            if sizes[-1] <= 0 and len(sizes) > 1:
                sizes.pop()
            else:
                break
        shared = [
            writer.words(stream(seed, self.name, "block", id_), size)
            for id_, size in zip(row.hash_ids, sizes[:-1], strict=False)
        ]
        before = "".join(f"{text} " for text in shared)
        rng = stream(seed, self.name, "block", row.hash_ids[len(sizes) - 1])
        written = writer.first_at_least(rng, row.input_length, before=before)
        return written.text, written.tokens

    @cached_property
    def _file(self) -> Rows[MooncakeRow]:
        decoder = msgspec.json.Decoder(MooncakeRow)

        def parse(text: str) -> MooncakeRow:
            row = decoder.decode(text)
            _check(row, self.block)
            return row

        lines = numbered_lines(self.path)
        return read_rows(self.path, lines, parse, skip_bad_lines=self.skip_bad_lines)

    @cached_property
    def _kept(self) -> list[MooncakeRow]:
        rows = [row for row in self._file.rows if not self._too_long(row)][: self.limit]
        if not rows:
            raise TraceError(self.path, None, f"no request is left ({'; '.join(self._left_out)})")
        return sorted(rows, key=lambda row: row.timestamp)

    def _too_long(self, row: MooncakeRow) -> bool:
        return self.longest is not None and row.input_length > self.longest

    @property
    def _left_out(self) -> tuple[str, ...]:
        rows = self._file.rows
        notes = list(self._file.notes)
        if self.longest is not None:
            long = sum(self._too_long(row) for row in rows)
            notes.append(f"{long} prompts above {self.longest} tokens left out")
        if any(b.timestamp < a.timestamp for a, b in pairwise(rows)):
            notes.append("the trace is not in order of time; replayed in order")
        return tuple(notes)

    @property
    def _length(self) -> int:
        return len(self._kept)


def _check(row: MooncakeRow, block: int) -> None:
    """Raises `ValueError` for a line that contradicts itself."""
    if not 0 <= row.timestamp < float("inf"):
        raise ValueError(f"timestamp is {row.timestamp}, not a number of milliseconds")
    for name, value in (("input_length", row.input_length), ("output_length", row.output_length)):
        if value < 1:
            raise ValueError(f"{name} is {value}, but must be at least 1")
    blocks = -(-row.input_length // block)
    if len(row.hash_ids) != blocks:
        raise ValueError(
            f"{len(row.hash_ids)} hash_ids for {row.input_length} tokens, which are {blocks} "
            f"blocks of {block}; other block sizes: mooncake:path=FILE,block=N"
        )
