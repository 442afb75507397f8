"""The flat arrays of a step, worked out by hand."""

from collections.abc import Sequence

import numpy as np
import pytest

from netgain.engine.device_state import DeviceState
from netgain.engine.messages import RequestId
from netgain.engine.sampling_params import SamplingParams
from netgain.engine.step import NewRequest, Slice, Step, StepId, TableGrowth, Tables
from netgain.kv.block_pool import BlockId
from netgain.ops.step_inputs import StepInputs

A, B = RequestId("a"), RequestId("b")
GREEDY = SamplingParams(temperature=0.0)
WARM = SamplingParams(temperature=0.75, top_k=20, top_p=0.5)


def tables(*groups: list[int]) -> Tables:
    return tuple(tuple(BlockId(block) for block in group) for group in groups)


def new(
    name: RequestId,
    tokens: list[int],
    blocks: Tables,
    seed: int = 0,
    params: SamplingParams | None = None,
) -> NewRequest:
    params = params or (GREEDY if name == A else WARM)
    return NewRequest(name, tuple(tokens), len(tokens), params, seed, blocks)


def inputs(state: DeviceState, slices: Sequence[Slice]) -> StepInputs:
    return state.arrays(slices).inputs


def sampled(state: DeviceState, slices: Sequence[Slice], tokens: list[int]) -> None:
    state.append(state.arrays(slices), tokens)


def mixed() -> tuple[DeviceState, list[Slice]]:
    """`a` decodes its 7th position; `b` prefills positions 4 to 8 of 11. Blocks of 4, 2 groups."""
    state = DeviceState(groups=2, block_tokens=4, max_tokens=16, max_requests=2)
    state.apply(
        Step(
            StepId(1),
            (),
            (
                new(A, [10, 11, 12, 13, 14, 15], tables([5, 6], [1, 2]), seed=3),
                new(B, list(range(20, 31)), tables([7, 8, 9], [3, 4, 5]), seed=-1),
            ),
        )
    )
    sampled(state, [Slice(A, 0, 6, sample=True)], [16])
    return state, [Slice(A, 6, 1, sample=True), Slice(B, 4, 5, sample=False)]


def test_the_arrays_of_a_mixed_step_are_exactly_right() -> None:
    state, slices = mixed()
    made = inputs(state, slices)
    assert made.token_ids_T.tolist() == [16, 24, 25, 26, 27, 28]
    assert made.positions_T.tolist() == [6, 4, 5, 6, 7, 8]
    assert made.query_starts.tolist() == [0, 1, 6]
    assert made.context_lens_R.tolist() == [7, 9]
    assert made.logit_rows_N.tolist() == [0]
    first, second = made.groups
    # The shorter table is padded with the scratch block.
    assert first.block_tables_RM.tolist() == [[5, 6, 0], [7, 8, 9]]
    assert second.block_tables_RM.tolist() == [[1, 2, 0], [3, 4, 5]]


def test_every_array_is_contiguous_and_of_the_type_backends_read() -> None:
    state, slices = mixed()
    arrays = state.arrays(slices)
    made, draws = arrays.inputs, arrays.draws
    for array in (
        made.token_ids_T,
        made.positions_T,
        made.query_starts,
        made.context_lens_R,
        made.logit_rows_N,
        *(group.block_tables_RM for group in made.groups),
        draws.top_k_N,
    ):
        assert array.dtype == np.int32
        assert array.flags.c_contiguous
    assert draws.temperatures_N.dtype == draws.top_p_N.dtype == np.float32
    assert draws.seeds_N.dtype == np.uint64
    assert draws.positions_N.dtype == np.int64


def test_blocks_that_a_slice_does_not_reach_are_padding() -> None:
    state, _ = mixed()
    made = inputs(state, [Slice(A, 6, 1, sample=True), Slice(B, 0, 3, sample=False)])
    assert made.groups[0].block_tables_RM.tolist() == [[5, 6], [7, 0]]


def test_logit_rows_are_the_last_rows_of_sampling_slices() -> None:
    state, _ = mixed()
    made = inputs(state, [Slice(B, 8, 3, sample=True), Slice(A, 6, 1, sample=True)])
    assert made.logit_rows_N.tolist() == [2, 3]


def test_a_step_that_samples_nothing_has_no_logit_rows_and_no_draws() -> None:
    state, slices = mixed()
    arrays = state.arrays(slices[1:])
    assert arrays.inputs.logit_rows_N.tolist() == []
    assert len(arrays.draws) == 0
    state.append(arrays, [])


def test_draws_carry_settings_seed_and_the_place_of_the_token_to_come() -> None:
    state, _ = mixed()
    draws = state.arrays([Slice(B, 4, 7, sample=True), Slice(A, 6, 1, sample=True)]).draws
    assert draws.temperatures_N.tolist() == [0.75, 0.0]
    assert draws.top_k_N.tolist() == [20, 0]
    assert draws.top_p_N.tolist() == [0.5, 1.0]
    assert draws.seeds_N.tolist() == [2**64 - 1, 3]
    assert draws.positions_N.tolist() == [11, 7]


@pytest.mark.parametrize(
    ("params", "temperature", "top_k"),
    [
        (SamplingParams(temperature=1e-6), 0.0, 0),
        (SamplingParams(top_k=1), 0.0, 1),
        (SamplingParams(top_k=-1), 1.0, 0),
        (SamplingParams(top_k=2**63 - 1), 1.0, 2**31 - 1),
    ],
    ids=str,
)
def test_settings_at_their_ends_become_draws_that_mean_the_same(
    params: SamplingParams, temperature: float, top_k: int
) -> None:
    state = DeviceState(groups=1, block_tokens=4, max_tokens=16, max_requests=1)
    state.apply(Step(StepId(1), (), (new(A, [1], tables([1]), params=params),)))
    draws = state.arrays([Slice(A, 0, 1, sample=True)]).draws
    assert (draws.temperatures_N.tolist(), draws.top_k_N.tolist()) == ([temperature], [top_k])


def test_a_sampled_token_is_an_input_of_the_next_step_at_once() -> None:
    state, slices = mixed()
    sampled(state, slices, [99])
    made = inputs(state, [Slice(A, 7, 1, sample=True)])
    assert made.token_ids_T.tolist() == [99]
    assert made.positions_T.tolist() == [7]


def test_grown_tables_are_used_from_the_step_that_grew_them() -> None:
    state, slices = mixed()
    sampled(state, slices, [99])
    sampled(state, [Slice(A, 7, 1, sample=True)], [98])
    state.apply(Step(StepId(2), (), grown=(TableGrowth(A, tables([11], [12])),)))
    first, second = inputs(state, [Slice(A, 8, 1, sample=True)]).groups
    assert first.block_tables_RM.tolist() == [[5, 6, 11]]
    assert second.block_tables_RM.tolist() == [[1, 2, 12]]
    state.apply(Step(StepId(3), (), grown=(TableGrowth(A, tables([13], [14])),)))
    first, second = inputs(state, [Slice(A, 8, 5, sample=True)]).groups
    assert first.block_tables_RM.tolist() == [[5, 6, 11, 13]]
    assert second.block_tables_RM.tolist() == [[1, 2, 12, 14]]


def test_a_released_request_is_forgotten_and_its_name_can_be_used_anew() -> None:
    state, _ = mixed()
    state.apply(Step(StepId(2), (), (new(A, [1, 2], tables([9], [9])),), released=(A,)))
    assert len(state) == 2
    assert inputs(state, [Slice(A, 0, 2, sample=True)]).token_ids_T.tolist() == [1, 2]
    state.apply(Step(StepId(3), (), released=(A, B)))
    assert len(state) == 0
    with pytest.raises(KeyError):
        state.arrays([Slice(A, 0, 2, sample=True)])


def test_the_longest_sequence_fits_to_its_last_token() -> None:
    state = DeviceState(groups=1, block_tokens=4, max_tokens=8, max_requests=1)
    state.apply(Step(StepId(1), (), (new(A, list(range(7)), tables([1, 2])),)))
    sampled(state, [Slice(A, 0, 7, sample=True)], [50])
    assert inputs(state, [Slice(A, 0, 8, sample=True)]).token_ids_T.tolist()[-1] == 50
    sampled(state, [Slice(A, 7, 1, sample=True)], [51])


def test_a_token_that_a_failed_step_never_sampled_is_nothing_of_an_earlier_request() -> None:
    # A later outstanding step may still hold a slice of the failed request, beside others whose
    # results count.
    state = DeviceState(groups=1, block_tokens=4, max_tokens=4096, max_requests=1)
    state.apply(Step(StepId(1), (), (new(A, [7] * 8, tables([1, 2])),)))
    sampled(state, [Slice(A, 0, 8, sample=True)], [7])
    state.apply(Step(StepId(2), (), (new(B, [1, 2], tables([1])),), released=(A,)))
    made = inputs(state, [Slice(B, 0, 9, sample=False)])
    assert made.token_ids_T.tolist() == [1, 2, 0, 0, 0, 0, 0, 0, 0]
