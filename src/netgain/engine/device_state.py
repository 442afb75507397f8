"""What an executor remembers of each request, and the flat arrays it makes of a step.

Dimensions: T tokens of the step, R slices, N sampling slices, M blocks of the longest slice,
P places (one per request the executor knows).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from netgain.engine.messages import RequestId
from netgain.engine.step import NewRequest, Slice, Step
from netgain.ops.draws import Draws
from netgain.ops.step_inputs import GroupInputs, StepInputs

_MAX_INT32: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class StepArrays:
    """One step as its backend takes it. `places_N`: whose token each draw is."""

    inputs: StepInputs
    draws: Draws
    places_N: NDArray[np.intp]


class DeviceState:
    """All requests the executor knows: each has a row in a few arrays, so that a step's arrays are
    a handful of array operations, however many requests share it.

    `groups`: KV groups, `max_tokens`: longest sequence, `max_requests`: most known at a time.
    """

    def __init__(self, groups: int, block_tokens: int, max_tokens: int, max_requests: int) -> None:
        self._block_tokens = block_tokens
        max_blocks = -(-max_tokens // block_tokens)
        self._places: dict[RequestId, int] = {}
        self._free = list(range(max_requests - 1, -1, -1))
        # Rows hold zeros until used; pages become resident only when written.
        self._tokens_PT = np.zeros((max_requests, max_tokens + 1), np.int32)
        self._lengths_P = np.zeros(max_requests, np.int64)
        self._tables_GPM = np.zeros((groups, max_requests, max_blocks), np.int32)
        self._blocks_P = [0] * max_requests
        self._temperatures_P = np.zeros(max_requests, np.float32)
        self._top_k_P = np.zeros(max_requests, np.int32)
        self._top_p_P = np.ones(max_requests, np.float32)
        self._seeds_P = np.zeros(max_requests, np.uint64)

    def __len__(self) -> int:
        return len(self._places)

    def apply(self, step: Step) -> None:
        """Takes the step's deltas in: who left, who is new, whose tables grew."""
        for request_id in step.released:
            self._free.append(self._places.pop(request_id))
        for new in step.new:
            self._add(new)
        for growth in step.grown:
            place = self._places[growth.request_id]
            first = self._blocks_P[place]
            end = self._blocks_P[place] = first + len(growth.blocks[0])
            for table_PM, blocks in zip(self._tables_GPM, growth.blocks, strict=True):
                table_PM[place, first:end] = blocks

    def arrays(self, slices: Sequence[Slice]) -> StepArrays:
        """The flat arrays of these slices."""
        places_R = np.array([self._places[piece.request_id] for piece in slices])
        starts_R = np.array([piece.start for piece in slices])
        counts_R = np.array([piece.count for piece in slices])
        sampling_R = np.array([piece.sample for piece in slices])
        contexts_R = starts_R + counts_R
        query_starts = np.zeros(len(slices) + 1, np.int32)
        counts_R.cumsum(out=query_starts[1:])
        # A slice's positions are its rows, moved by the same number.
        moves_R = starts_R - query_starts[:-1]
        total = int(query_starts[-1])
        positions_T = np.arange(total) + moves_R.repeat(counts_R)
        places_N = places_R[sampling_R]
        return StepArrays(
            StepInputs(
                token_ids_T=self._tokens_PT[places_R.repeat(counts_R), positions_T],
                positions_T=positions_T.astype(np.int32),
                query_starts=query_starts,
                context_lens_R=contexts_R.astype(np.int32),
                groups=self._tables(places_R, contexts_R),
                logit_rows_N=query_starts[1:][sampling_R] - np.int32(1),
            ),
            Draws(
                temperatures_N=self._temperatures_P[places_N],
                top_k_N=self._top_k_P[places_N],
                top_p_N=self._top_p_P[places_N],
                seeds_N=self._seeds_P[places_N],
                positions_N=contexts_R[sampling_R],
            ),
            places_N,
        )

    def append(self, arrays: StepArrays, tokens: Sequence[int]) -> None:
        """Adds the sampled tokens, so that the next step may use them before anyone hears."""
        places_N = arrays.places_N
        self._tokens_PT[places_N, self._lengths_P[places_N]] = tokens
        self._lengths_P[places_N] += 1

    def _tables(
        self, places_R: NDArray[np.intp], contexts_R: NDArray[np.int64]
    ) -> tuple[GroupInputs, ...]:
        used_R = -(-contexts_R // self._block_tokens)
        widest = int(used_R.max())
        unused_RM = np.arange(widest) >= used_R[:, None]
        found = []
        for table_PM in self._tables_GPM:
            table_RM = table_PM[places_R, :widest]
            table_RM[unused_RM] = 0  # scratch
            found.append(GroupInputs(table_RM))
        return tuple(found)

    def _add(self, new: NewRequest) -> None:
        place = self._free.pop()
        self._places[new.request_id] = place
        tokens_T, count = self._tokens_PT[place], len(new.tokens)
        tokens_T[:count] = new.tokens
        # Nothing of whoever was here before: after a failed step a slice may read a token that was
        # never sampled.
        tokens_T[count : self._lengths_P[place] + 1] = 0
        self._lengths_P[place] = count
        self._blocks_P[place] = len(new.tables[0])
        for table_PM, blocks in zip(self._tables_GPM, new.tables, strict=True):
            table_PM[place, : len(blocks)] = blocks
        sampling = new.sampling
        self._temperatures_P[place] = 0.0 if sampling.greedy else sampling.temperature
        self._top_k_P[place] = min(max(sampling.top_k, 0), _MAX_INT32)
        self._top_p_P[place] = sampling.top_p
        self._seeds_P[place] = new.seed % (1 << 64)
