"""The flat arrays of a step, worked out by hand."""

import pytest
from netgain.engine.sampler import SamplingRow

from netgain.engine.device_state import DeviceState
from netgain.engine.messages import RequestId
from netgain.engine.sampling_params import SamplingParams
from netgain.engine.step import NewRequest, Slice, Step, StepId, TableGrowth, Tables
from netgain.kv.block_pool import BlockId

A, B = RequestId("a"), RequestId("b")
GREEDY = SamplingParams(temperature=0.0)
WARM = SamplingParams(temperature=0.7)


def tables(*groups: list[int]) -> Tables:
    return tuple(tuple(BlockId(block) for block in group) for group in groups)


def new(name: RequestId, tokens: list[int], blocks: Tables, seed: int = 0) -> NewRequest:
    params = GREEDY if name == A else WARM
    return NewRequest(name, tuple(tokens), len(tokens), params, seed, blocks)


def mixed() -> tuple[DeviceState, list[Slice]]:
    """`a` decodes its 7th position; `b` prefills positions 4 to 8 of 11. Blocks of 4, 2 groups."""
    state = DeviceState(groups=2, block_tokens=4, max_tokens=16)
    state.apply(
        Step(
            StepId(1),
            (),
            (
                new(A, [10, 11, 12, 13, 14, 15], tables([5, 6], [1, 2]), seed=3),
                new(B, list(range(20, 31)), tables([7, 8, 9], [3, 4, 5])),
            ),
        )
    )
    state.append([Slice(A, 0, 6, sample=True)], [16])
    return state, [Slice(A, 6, 1, sample=True), Slice(B, 4, 5, sample=False)]


def test_the_arrays_of_a_mixed_step_are_exactly_right() -> None:
    state, slices = mixed()
    inputs = state.inputs(slices)
    assert inputs.token_ids_T.tolist() == [16, 24, 25, 26, 27, 28]
    assert inputs.positions_T.tolist() == [6, 4, 5, 6, 7, 8]
    assert inputs.query_starts == (0, 1, 6)
    assert inputs.context_lens == (7, 9)
    assert inputs.logit_rows_N.tolist() == [0]
    first, second = inputs.groups
    # The shorter table is padded with the scratch block.
    assert first.block_tables_RM.tolist() == [[5, 6, 0], [7, 8, 9]]
    assert second.block_tables_RM.tolist() == [[1, 2, 0], [3, 4, 5]]
    assert first.slot_blocks_T.tolist() == [6, 8, 8, 8, 8, 9]
    assert second.slot_blocks_T.tolist() == [2, 4, 4, 4, 4, 5]
    assert first.slot_offsets_T.tolist() == [2, 0, 1, 2, 3, 0]
    assert second.slot_offsets_T.tolist() == [2, 0, 1, 2, 3, 0]


def test_logit_rows_are_the_last_rows_of_sampling_slices() -> None:
    state, _ = mixed()
    inputs = state.inputs([Slice(B, 8, 3, sample=True), Slice(A, 6, 1, sample=True)])
    assert inputs.logit_rows_N.tolist() == [2, 3]


def test_a_step_that_samples_nothing_has_no_logit_rows() -> None:
    state, slices = mixed()
    assert state.inputs(slices[1:]).logit_rows_N.tolist() == []


def test_sampling_rows_carry_settings_seed_and_the_place_of_the_token_to_come() -> None:
    state, slices = mixed()
    assert state.sampling_rows(slices) == [SamplingRow(GREEDY, 3, 7)]


def test_a_sampled_token_is_an_input_of_the_next_step_at_once() -> None:
    state, slices = mixed()
    state.append(slices, [99])
    inputs = state.inputs([Slice(A, 7, 1, sample=True)])
    assert inputs.token_ids_T.tolist() == [99]
    assert inputs.positions_T.tolist() == [7]


def test_grown_tables_are_used_from_the_step_that_grew_them() -> None:
    state, slices = mixed()
    state.append(slices, [99])
    state.append([Slice(A, 7, 1, sample=True)], [98])
    state.apply(Step(StepId(2), (), grown=(TableGrowth(A, tables([11], [12])),)))
    first, second = state.inputs([Slice(A, 8, 1, sample=True)]).groups
    assert first.block_tables_RM.tolist() == [[5, 6, 11]]
    assert second.slot_blocks_T.tolist() == [12]
    state.apply(Step(StepId(3), (), grown=(TableGrowth(A, tables([13], [14])),)))
    first, second = state.inputs([Slice(A, 8, 5, sample=True)]).groups
    assert first.block_tables_RM.tolist() == [[5, 6, 11, 13]]
    assert second.block_tables_RM.tolist() == [[1, 2, 12, 14]]


def test_a_released_request_is_forgotten_and_its_name_can_be_used_anew() -> None:
    state, _ = mixed()
    state.apply(Step(StepId(2), (), (new(A, [1, 2], tables([9], [9])),), released=(A,)))
    assert len(state) == 2
    assert state.inputs([Slice(A, 0, 2, sample=True)]).token_ids_T.tolist() == [1, 2]
    state.apply(Step(StepId(3), (), released=(A, B)))
    assert len(state) == 0
    with pytest.raises(KeyError):
        state.inputs([Slice(A, 0, 2, sample=True)])


def test_the_longest_sequence_fits_to_its_last_token() -> None:
    state = DeviceState(groups=1, block_tokens=4, max_tokens=8)
    state.apply(Step(StepId(1), (), (new(A, list(range(7)), tables([1, 2])),)))
    state.append([Slice(A, 0, 7, sample=True)], [50])
    assert state.inputs([Slice(A, 0, 8, sample=False)]).token_ids_T.tolist()[-1] == 50


def test_a_token_that_a_failed_step_never_sampled_reads_as_a_valid_id() -> None:
    # A later outstanding step may still hold a slice of the failed request, beside others whose
    # results count: an id from unset memory would make that step fail as well.
    state = DeviceState(groups=1, block_tokens=4, max_tokens=4096)
    state.apply(Step(StepId(1), (), (new(A, [1, 2], tables([1])),)))
    inputs = state.inputs([Slice(A, 2, 1, sample=True)])
    assert inputs.token_ids_T.tolist() == [0]
