"""What an executor remembers of each request, and the flat arrays it makes of a step.

Dimensions: T tokens of the step, R slices, M blocks of the longest slice, N sampling rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from netgain.engine.messages import RequestId
from netgain.engine.sampler import SamplingRow
from netgain.engine.sampling_params import SamplingParams
from netgain.engine.step import NewRequest, Slice, Step
from netgain.ops.step_inputs import GroupInputs, StepInputs


@dataclass(slots=True)
class _RequestState:
    """Tokens and tables grow in place; `length` tokens are known."""

    tokens: np.ndarray
    length: int
    tables: list[np.ndarray]
    blocks: int
    sampling: SamplingParams
    seed: int


class DeviceState:
    """All requests the executor knows.

    `max_tokens`: longest sequence, `max_blocks`: its blocks, `groups`: KV groups.
    """

    def __init__(self, groups: int, block_tokens: int, max_tokens: int) -> None:
        self._groups = groups
        self._block_tokens = block_tokens
        self._max_tokens = max_tokens
        self._max_blocks = -(-max_tokens // block_tokens)
        self._requests: dict[RequestId, _RequestState] = {}

    def __len__(self) -> int:
        return len(self._requests)

    def apply(self, step: Step) -> None:
        """Takes the step's deltas in: who left, who is new, whose tables grew."""
        for request_id in step.released:
            del self._requests[request_id]
        for new in step.new:
            self._requests[new.request_id] = self._state(new)
        for growth in step.grown:
            state = self._requests[growth.request_id]
            count = len(growth.blocks[0])
            for table, blocks in zip(state.tables, growth.blocks, strict=True):
                table[state.blocks : state.blocks + count] = blocks
            state.blocks += count

    def inputs(self, slices: Sequence[Slice]) -> StepInputs:
        """The flat arrays of these slices."""
        total = sum(piece.count for piece in slices)
        tokens_T = np.empty(total, np.int64)
        positions_T = np.empty(total, np.int64)
        states = [self._requests[piece.request_id] for piece in slices]
        contexts = [piece.start + piece.count for piece in slices]
        widest = -(-max(contexts) // self._block_tokens)
        tables_GRM = np.zeros((self._groups, len(slices), widest), np.int64)
        owners_T = np.empty(total, np.int64)
        starts = [0]
        for index, (piece, state, context) in enumerate(zip(slices, states, contexts, strict=True)):
            row = starts[-1]
            end = row + piece.count
            tokens_T[row:end] = state.tokens[piece.start : context]
            positions_T[row:end] = np.arange(piece.start, context)
            owners_T[row:end] = index
            starts.append(end)
            used = -(-context // self._block_tokens)
            for group, table in enumerate(state.tables):
                tables_GRM[group, index, :used] = table[:used]
        block_T, offset_T = np.divmod(positions_T, self._block_tokens)
        offsets = torch.from_numpy(offset_T)
        logit_rows = [
            end - 1 for piece, end in zip(slices, starts[1:], strict=True) if piece.sample
        ]
        return StepInputs(
            token_ids_T=torch.from_numpy(tokens_T),
            positions_T=torch.from_numpy(positions_T),
            query_starts=tuple(starts),
            context_lens=tuple(contexts),
            groups=tuple(
                GroupInputs(
                    block_tables_RM=torch.from_numpy(table_RM),
                    slot_blocks_T=torch.from_numpy(table_RM[owners_T, block_T]),
                    slot_offsets_T=offsets,
                )
                for table_RM in tables_GRM
            ),
            logit_rows_N=torch.tensor(logit_rows, dtype=torch.int64),
        )

    def sampling_rows(self, slices: Sequence[Slice]) -> list[SamplingRow]:
        """How to choose the token of each sampling slice, in order."""
        rows: list[SamplingRow] = []
        for piece in slices:
            if piece.sample:
                state = self._requests[piece.request_id]
                rows.append(SamplingRow(state.sampling, state.seed, piece.start + piece.count))
        return rows

    def append(self, slices: Sequence[Slice], tokens: Sequence[int]) -> None:
        """Adds the sampled tokens, so that the next step may use them before anyone hears."""
        sampled = iter(tokens)
        for piece in slices:
            if piece.sample:
                state = self._requests[piece.request_id]
                state.tokens[state.length] = next(sampled)
                state.length += 1

    def _state(self, new: NewRequest) -> _RequestState:
        # Zeros, not whatever was there: after a failed step a slice may read a token that was never
        # sampled, and an impossible id would fail the others in its step.
        tokens = np.zeros(self._max_tokens + 1, np.int64)
        tokens[: len(new.tokens)] = new.tokens
        tables: list[np.ndarray] = []
        for blocks in new.tables:
            table = np.zeros(self._max_blocks, np.int64)
            table[: len(blocks)] = blocks
            tables.append(table)
        return _RequestState(
            tokens, len(new.tokens), tables, len(new.tables[0]), new.sampling, new.seed
        )
