"""Lays out steps over paged KV for tests: block tables and flat arrays.

Dimensions: N rows of a slice, V vocabulary.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from netgain.ops.step_inputs import GroupInputs, StepInputs
from tests.backends import LoadedModel

LEFT_BEHIND: Final = 0x42
"""A byte that makes a finite number in every KV format: what earlier owners left in a block."""


@dataclass(eq=False)
class PagedSequence:
    """Tokens whose keys and values lie in `blocks`."""

    length: int = 0
    blocks: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Work:
    """The next tokens of one sequence; logits of all of them, or of the last only."""

    sequence: PagedSequence
    tokens: Sequence[int]
    all_rows: bool = True


class PagedDriver:
    """Owns a runner over KV records of one group and hands out blocks in scrambled order."""

    def __init__(
        self,
        loaded: LoadedModel,
        block_tokens: int,
        blocks: int,
        seed: int = 0,
        max_tokens: int = 4096,
    ) -> None:
        backend, model = loaded.backend, loaded.model
        groups = model.config.kv_groups(block_tokens, backend.traits.kv_dtype)
        self.runner = backend.runner(model, groups, blocks, max_tokens, max_rows=64)
        for record in self.runner.records:
            record.fill(LEFT_BEHIND)
        self.block_tokens = block_tokens
        self.free = list(range(1, blocks))
        random.Random(seed).shuffle(self.free)

    def release(self, sequence: PagedSequence) -> None:
        self.free.extend(sequence.blocks)
        sequence.blocks.clear()

    def step(self, work: Sequence[Work]) -> list[torch.Tensor]:
        """Runs one step; logits `[N, V]` per slice."""
        logits = torch.from_numpy(self.runner.logits(self.inputs(work)))
        return list(torch.split(logits, [len(w.tokens) if w.all_rows else 1 for w in work]))

    def inputs(self, work: Sequence[Work]) -> StepInputs:
        """The arrays of a step that takes each sequence further."""
        logit_rows: list[int] = []
        spans: list[tuple[int, int]] = []
        at = 0
        for item in work:
            sequence, first = item.sequence, item.sequence.length
            sequence.length += len(item.tokens)
            while len(sequence.blocks) * self.block_tokens < sequence.length:
                sequence.blocks.append(self.free.pop())
            spans.append((first, sequence.length))
            rows = range(at, at + len(item.tokens))
            logit_rows.extend(rows if item.all_rows else rows[-1:])
            at = rows.stop
        tokens = [token for item in work for token in item.tokens]
        return flat_inputs(tokens, spans, [item.sequence.blocks for item in work], logit_rows)


def flat_inputs(
    tokens: Sequence[int],
    spans: Sequence[tuple[int, int]],
    tables: Sequence[Sequence[int]],
    logit_rows: Sequence[int],
) -> StepInputs:
    """Inputs of slices that cover positions `[first, end)` each, over one KV group."""
    most = max(map(len, tables))
    counts = [end - first for first, end in spans]
    return StepInputs(
        token_ids_T=int32(tokens),
        positions_T=int32([position for span in spans for position in range(*span)]),
        query_starts=int32([0, *np.cumsum(counts)]),
        context_lens_R=int32([end for _, end in spans]),
        groups=(GroupInputs(int32([[*table, *[0] * (most - len(table))] for table in tables])),),
        logit_rows_N=int32(logit_rows),
    )


def int32(values: object) -> NDArray[np.int32]:
    return np.array(values, np.int32)
