"""Lays out steps over paged KV for tests: block tables, slots, flat arrays.

Dimensions: N rows of a slice, V vocabulary.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from netgain.models.causal_lm import CausalLM
from netgain.ops.step_inputs import GroupInputs, StepInputs


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
    """Owns KV records of one group and hands out blocks in scrambled order."""

    def __init__(self, model: CausalLM, block_tokens: int, blocks: int, seed: int = 0) -> None:
        (group,) = model.config.kv_groups(block_tokens)
        self.model = model
        self.block_tokens = block_tokens
        # What earlier owners left behind must not show.
        self.records = torch.full((blocks, *group.record_shape), 50.0)
        self.free = list(range(1, blocks))
        random.Random(seed).shuffle(self.free)

    def release(self, sequence: PagedSequence) -> None:
        self.free.extend(sequence.blocks)
        sequence.blocks.clear()

    def step(self, work: Sequence[Work]) -> list[torch.Tensor]:
        """Runs one step; logits `[N, V]` per slice."""
        logits = self.model.forward(self._inputs(work), [self.records])
        return list(torch.split(logits, [len(w.tokens) if w.all_rows else 1 for w in work]))

    def _inputs(self, work: Sequence[Work]) -> StepInputs:
        tokens: list[int] = []
        positions: list[int] = []
        slot_blocks: list[int] = []
        slot_offsets: list[int] = []
        logit_rows: list[int] = []
        starts, contexts = [0], []
        for item in work:
            sequence, first = item.sequence, item.sequence.length
            sequence.length += len(item.tokens)
            while len(sequence.blocks) * self.block_tokens < sequence.length:
                sequence.blocks.append(self.free.pop())
            span = range(first, sequence.length)
            tokens.extend(item.tokens)
            positions.extend(span)
            slot_blocks.extend(sequence.blocks[p // self.block_tokens] for p in span)
            slot_offsets.extend(p % self.block_tokens for p in span)
            starts.append(len(tokens))
            contexts.append(sequence.length)
            rows = range(starts[-2], starts[-1])
            logit_rows.extend(rows if item.all_rows else rows[-1:])
        most = max(len(item.sequence.blocks) for item in work)
        tables = [[*w.sequence.blocks, *[0] * (most - len(w.sequence.blocks))] for w in work]
        group = GroupInputs(
            torch.tensor(tables), torch.tensor(slot_blocks), torch.tensor(slot_offsets)
        )
        return StepInputs(
            token_ids_T=torch.tensor(tokens),
            positions_T=torch.tensor(positions),
            query_starts=tuple(starts),
            context_lens=tuple(contexts),
            groups=(group,),
            logit_rows_N=torch.tensor(logit_rows),
        )
