"""What an executor remembers of each request, and the flat arrays it makes of a step.

Dimensions: T tokens of the step, R slices, N sampling slices, M blocks of the longest slice,
P places (one per request the executor knows), S rows drawn from or scored.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

import numpy as np
from numpy.typing import NDArray

from netgain.engine.messages import RequestId
from netgain.engine.sampling_state import SamplingState
from netgain.engine.step import NewRequest, PromptEmbedding, Slice, Step
from netgain.ops.draws import Draws
from netgain.ops.scores import Wanted
from netgain.ops.step_inputs import GroupInputs, StepInputs

_MAX_INT32: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class PromptRows:
    """Positions of one request's prompt, from `first` on, of which something is wanted."""

    request_id: RequestId
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class StepArrays:
    """One step as its backend takes it. `places_N`: whose token each draw is.

    `wanted`: what else is wanted, None for nothing. Behind the draws then come the rows that say
    how likely the tokens of `scored` were, and behind these the rows of `pooled`.
    """

    inputs: StepInputs
    draws: Draws
    places_N: NDArray[np.intp]
    wanted: Wanted | None = None
    scored: tuple[PromptRows, ...] = ()
    pooled: tuple[PromptRows, ...] = ()


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
        self._min_p_P = np.zeros(max_requests, np.float32)
        # By place; most requests need none.
        self._sampling: dict[int, SamplingState] = {}

    def __len__(self) -> int:
        return len(self._places)

    def apply(self, step: Step) -> None:
        """Takes the step's deltas in: who left, who is new, whose tables grew."""
        for request_id in step.released:
            place = self._places.pop(request_id)
            self._free.append(place)
            self._sampling.pop(place, None)
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
        places = [self._places[piece.request_id] for piece in slices]
        contexts = [piece.start + piece.count for piece in slices]
        ends = list(accumulate(piece.count for piece in slices))
        places_R, contexts_R = np.array(places), np.array(contexts)
        if ends[-1] == len(slices):
            # One token each: a slice's row is its place in the list.
            rows_places_T, positions_T = places_R, contexts_R - 1
        else:
            counts_R = np.array([piece.count for piece in slices])
            # A slice's positions are its rows, moved by the same number.
            moves_T = (contexts_R - ends).repeat(counts_R)
            rows_places_T, positions_T = places_R.repeat(counts_R), moves_T + np.arange(ends[-1])
        sampling = [index for index, piece in enumerate(slices) if piece.sample]
        places_N = places_R if len(sampling) == len(slices) else places_R[sampling]
        arrays = StepArrays(
            StepInputs(
                token_ids_T=self._tokens_PT[rows_places_T, positions_T],
                positions_T=positions_T.astype(np.int32),
                query_starts=np.array([0, *ends], np.int32),
                context_lens_R=contexts_R.astype(np.int32),
                groups=self._tables(places_R, contexts),
                logit_rows_N=np.array([ends[index] - 1 for index in sampling], np.int32),
            ),
            Draws(
                temperatures_N=self._temperatures_P[places_N],
                top_k_N=self._top_k_P[places_N],
                top_p_N=self._top_p_P[places_N],
                seeds_N=self._seeds_P[places_N],
                positions_N=np.array([contexts[index] for index in sampling], np.int64),
            ),
            places_N,
        )
        if self._sampling:
            arrays = self._add_rows(self._shaped(arrays), slices, places, ends)
        return arrays

    def append(self, arrays: StepArrays, tokens: Sequence[int]) -> None:
        """Adds the sampled tokens, which the next step may use."""
        places_N = arrays.places_N
        self._tokens_PT[places_N, self._lengths_P[places_N]] = tokens
        self._lengths_P[places_N] += 1
        if self._sampling:
            for place, token in zip(places_N.tolist(), tokens, strict=True):
                state = self._sampling.get(place)
                if state is not None:
                    state.append(token)

    def _shaped(self, arrays: StepArrays) -> StepArrays:
        """With what the draws of some requests take beside numbers."""
        draws = arrays.draws
        places: list[int] = arrays.places_N.tolist()
        positions: list[int] = draws.positions_N.tolist()
        shapings = [
            shaping
            for row, place in enumerate(places)
            if (state := self._sampling.get(place)) is not None
            and (shaping := state.shaping(row, positions[row])) is not None
        ]
        min_p_N = self._min_p_P[arrays.places_N]
        if not shapings and not min_p_N.any():
            return arrays
        return replace(arrays, draws=replace(draws, min_p_N=min_p_N, shapings=tuple(shapings)))

    def pool(self, arrays: StepArrays, hidden_HE: NDArray[np.float32]) -> list[PromptEmbedding]:
        """Takes the hidden states of the step's pooled rows; the embeddings that they complete."""
        made: list[PromptEmbedding] = []
        row = 0
        for rows in arrays.pooled:
            state = self._sampling[self._places[rows.request_id]]
            vector = state.pool(hidden_HE[row : row + rows.count], rows.first + rows.count)
            if vector is not None:
                made.append(PromptEmbedding(rows.request_id, vector))
            row += rows.count
        return made

    def _add_rows(
        self, arrays: StepArrays, slices: Sequence[Slice], places: list[int], ends: list[int]
    ) -> StepArrays:
        """With the rows and targets of those who want log-probabilities or an embedding."""
        tops: list[int] = []
        prompt_tops: list[int] = []
        targets: list[NDArray[np.int32]] = []
        scored: list[PromptRows] = []
        pooled: list[PromptRows] = []
        scored_rows: list[NDArray[np.int32]] = []
        pooled_rows: list[NDArray[np.int32]] = []
        for piece, place, end in zip(slices, places, ends, strict=True):
            state = self._sampling.get(place)
            if piece.sample:
                tops.append(-1 if state is None else state.tops)
            if state is None:
                continue
            first_row = end - piece.count
            if state.pooling:
                pooled.append(PromptRows(piece.request_id, piece.start, piece.count))
                pooled_rows.append(np.arange(first_row, end, dtype=np.int32))
            # The row of a position says how likely the next one's token was.
            count = min(piece.start + piece.count, state.prompt_tokens - 1) - piece.start
            if state.prompt_tops < 0 or count <= 0:
                continue
            first = piece.start + 1
            scored.append(PromptRows(piece.request_id, first, count))
            scored_rows.append(np.arange(first_row, first_row + count, dtype=np.int32))
            targets.append(self._tokens_PT[place, first : first + count])
            prompt_tops.extend([state.prompt_tops] * count)
        if not scored and not pooled and max(tops, default=-1) < 0:
            return arrays
        rows_N = np.concatenate([arrays.inputs.logit_rows_N, *scored_rows, *pooled_rows])
        return replace(
            arrays,
            inputs=replace(arrays.inputs, logit_rows_N=rows_N),
            wanted=Wanted(
                np.array(tops + prompt_tops, np.int32),
                np.concatenate([np.empty(0, np.int32), *targets]),
            ),
            scored=tuple(scored),
            pooled=tuple(pooled),
        )

    def _tables(
        self, places_R: NDArray[np.intp], contexts: Sequence[int]
    ) -> tuple[GroupInputs, ...]:
        size = self._block_tokens
        narrowest, widest = -(-min(contexts) // size), -(-max(contexts) // size)
        # Row by row, and cheaper than an index and a slice at once.
        tables = [table_PM[:, :widest].take(places_R, 0) for table_PM in self._tables_GPM]
        if narrowest < widest:
            used_R1 = -(-np.array(contexts) // size)[:, None]
            unused_RM = np.arange(widest) >= used_R1
            for table_RM in tables:
                table_RM[unused_RM] = 0  # scratch
        return tuple(map(GroupInputs, tables))

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
        self._min_p_P[place] = sampling.min_p
        if new.pooling or not sampling.plain:
            self._sampling[place] = SamplingState(new)
