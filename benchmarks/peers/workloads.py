"""What every engine is asked to do: the same token ids, by workload and round."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.peers.protocol import Times

_TOKEN_IDS: Final = (100, 40_000)
"""Ordinary tokens of the default model; none of them is special."""
_TOGETHER: Final = 0.5
"""Share of a step by which first tokens may be apart and still be of one step."""


class NotComparableError(RuntimeError):
    """An engine did something else than the row says."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Sequences that arrive at once, and the rows that their times give.

    `new_tokens` has one entry a sequence. Where they differ, the batch shrinks as the shorter ones
    end, and every stage between two ends is a row of its own: one long prefill serves several
    batch sizes. Rows are named in the order in which they are measured.
    """

    name: str
    prompt_tokens: int
    new_tokens: tuple[int, ...]
    rows: tuple[str, ...]
    most_rounds: int | None = None

    def prompts(self, round_: int) -> list[list[int]]:
        """Token ids `[sequence][position]` that no other round or workload has."""
        source = random.Random(f"{self.prompt_tokens} x {len(self.new_tokens)}, round {round_}")
        return [
            [source.randrange(*_TOKEN_IDS) for _ in range(self.prompt_tokens)]
            for _ in self.new_tokens
        ]

    def speeds(self, times: Sequence[Times]) -> Mapping[str, float]:
        """Tokens per second of each row. Raises `NotComparableError`."""
        raise NotImplementedError


class Prefill(Workload):
    """Prompt tokens per second until the first new token is there."""

    def speeds(self, times: Sequence[Times]) -> Mapping[str, float]:
        """Of all sequences together."""
        tokens = self.prompt_tokens * len(times)
        return {self.rows[0]: tokens / max(time.first_s for time in times)}


class Decode(Workload):
    """New tokens per second after all prompts, first tokens not counted."""

    def speeds(self, times: Sequence[Times]) -> Mapping[str, float]:
        """Of each stage: its running sequences x its steps over its time."""
        speeds: dict[str, float] = {}
        began_s, done = max(time.first_s for time in times), 1
        apart_s = began_s - min(time.first_s for time in times)
        for row, count in zip(self.rows, sorted(set(self.new_tokens)), strict=True):
            ended_s = max(
                time.last_s
                for time, tokens in zip(times, self.new_tokens, strict=True)
                if tokens == count
            )
            steps, running = count - done, sum(tokens >= count for tokens in self.new_tokens)
            if apart_s > _TOGETHER * (ended_s - began_s) / steps:
                raise NotComparableError(
                    f"first tokens came {apart_s:.3f} s apart: sequences decoded while others "
                    "were still in prefill"
                )
            speeds[row] = running * steps / (ended_s - began_s)
            began_s, done, apart_s = ended_s, count, 0.0
        return speeds


class Answers(Workload):
    """New tokens per second from the requests to the last token, prefill included."""

    def speeds(self, times: Sequence[Times]) -> Mapping[str, float]:
        """Of all streams together."""
        return {self.rows[0]: sum(self.new_tokens) / max(time.last_s for time in times)}


LONG_DECODE: Final = Decode(
    "decode-1k",
    1024,
    (33,) * 12 + (65,) * 3 + (97,),
    (
        "decode b16, context 1024-1056",
        "decode b4, context 1056-1088",
        "decode b1, context 1088-1120",
    ),
    # One prefill of 16,384 tokens a turn: a third of all time otherwise.
    most_rounds=3,
)
ENGINE_WORKLOADS: Final[tuple[Workload, ...]] = (
    Prefill("prefill-512", 512, (1,), ("prefill 512",)),
    Prefill("prefill-2048", 2048, (1,), ("prefill 2048",)),
    Decode("decode-b1", 32, (69,), ("decode b1, context 32-100",)),
    Decode("decode-b4", 32, (69,) * 4, ("decode b4, context 32-100",)),
    Decode("decode-b16", 32, (69,) * 16, ("decode b16, context 32-100",)),
    LONG_DECODE,
)
HTTP: Final = Answers("http", 256, (64,) * 16, ("HTTP, 16 streams of 256 in / 64 out",))
IN_PROCESS: Final = Answers("http", 256, (64,) * 16, ("the same in process",))
WARM_UP: Final = Answers("warm-up", 64, (4,), ("warm-up",))
FOOTPRINT: Final = Answers("start", 2048, (64,), ("footprint",))
"""Touches the KV cache before memory is read."""
QUICK: Final = ("prefill-512", "decode-b1", "decode-b16")
