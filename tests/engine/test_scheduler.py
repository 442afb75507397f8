"""What the scheduler puts into a step, and in whose favour."""

import pytest

from netgain.cost.step_time import StepTimeModel
from netgain.engine.messages import FinishReason, RequestId
from netgain.engine.step import Step
from netgain.ledger.stages import LedgerStage
from tests.engine.device_oracle import EOS, OracleTier, Rig, expected_answer, load_of
from tests.engine.rigs import (
    STEP_TIME,
    TARGET_S,
    assert_right_answer,
    make_rig,
    prompt,
    reason,
    stages,
)


def start_decoders(rig: Rig, count: int, length: int = 9) -> list[RequestId]:
    """Requests that have their first token and want many more."""
    names = [
        rig.arrive(prompt(length, first), max_tokens=400, ignore_eos=True)
        for first in range(1, count + 1)
    ]
    while any(not rig.outputs[name] for name in names):
        rig.finish_step()
    return names


def chunks_of(steps: list[Step], request: RequestId) -> list[tuple[int, int]]:
    return [
        (piece.start, piece.start + piece.count)
        for step in steps
        for piece in step.slices
        if piece.request_id == request
    ]


def first_step(steps: list[Step], request: RequestId) -> int:
    return next(
        index
        for index, step in enumerate(steps)
        if any(piece.request_id == request for piece in step.slices)
    )


def test_decode_slices_come_before_prefill_chunks_and_every_decoder_has_one() -> None:
    rig = make_rig()
    decoders = start_decoders(rig, 3)
    seen = len(rig.steps)
    rig.arrive(prompt(500), max_tokens=1)
    for _ in range(4):
        rig.finish_step()
    mixed = [step for step in rig.steps[seen:] if len(step.slices) == 4]
    assert mixed
    for step in mixed:
        assert [piece.request_id for piece in step.slices[:3]] == decoders
        assert [piece.count for piece in step.slices[:3]] == [1, 1, 1]


def test_a_long_prompt_beside_decoders_keeps_steps_within_the_target_on_block_edges() -> None:
    rig = make_rig()
    start_decoders(rig, 3)
    seen = len(rig.steps)
    long = rig.arrive(prompt(500), max_tokens=1)
    while long not in rig.ended:
        rig.finish_step()
    chunks = chunks_of(rig.steps, long)
    assert len(chunks) >= 3
    assert [end for _, end in chunks[:-1]] == [start for start, _ in chunks[1:]]
    assert all(end % 8 == 0 for _, end in chunks[:-1])
    assert chunks[-1][1] == 500
    with_chunk = [step for step in rig.steps[seen:] if len(step.slices) == 4]
    times = [STEP_TIME.step_s(load_of(step)) for step in with_chunk]
    assert max(times) <= TARGET_S * 1.01
    # One more block would have been too much: the target is used, not just kept.
    block_s = 8 * STEP_TIME.token_s
    assert all(seconds + block_s > TARGET_S * 0.97 for seconds in times[:-1])


def test_without_decoders_a_prompt_is_also_cut_to_the_target() -> None:
    rig = make_rig()
    rig.arrive(prompt(500), max_tokens=1)
    rig.drain()
    assert max(STEP_TIME.step_s(load_of(step)) for step in rig.steps) <= TARGET_S * 1.01


@pytest.mark.parametrize("decoders", [0, 2])
def test_a_machine_too_slow_for_the_target_still_moves_one_block_a_step(decoders: int) -> None:
    rig = make_rig(step_time=StepTimeModel(1.0, 0.1, 1.0, 1e-6, 1e-8))
    start_decoders(rig, decoders, length=5)
    slow = rig.arrive(prompt(20), max_tokens=1)
    while slow not in rig.ended:
        rig.finish_step()
    assert chunks_of(rig.steps, slow) == [(0, 8), (8, 16), (16, 20)]


def test_a_step_never_holds_more_tokens_than_its_budget() -> None:
    rig = make_rig(budget=40, target_s=60)
    start_decoders(rig, 3)
    seen = len(rig.steps)
    long = rig.arrive(prompt(300), max_tokens=1)
    while long not in rig.ended:
        rig.finish_step()
    # 37 tokens are left beside the decoders: four whole blocks.
    assert [step.tokens for step in rig.steps[seen:]][:3] == [35, 35, 35]


def test_prompts_that_come_together_begin_and_end_in_the_order_they_came() -> None:
    rig = make_rig()
    names = rig.arrive_together([prompt(300, first) for first in range(3)], max_tokens=1)
    rig.drain()
    assert [first_step(rig.steps, name) for name in names] == sorted(
        first_step(rig.steps, name) for name in names
    )
    assert list(rig.ended) == names


def test_a_short_prompt_does_not_wait_for_the_end_of_a_long_one() -> None:
    rig = make_rig()
    long = rig.arrive(prompt(1000, 1), max_tokens=1)
    rig.finish_step()
    short = rig.arrive(prompt(20, 2), max_tokens=1)
    rig.finish_step()
    rig.finish_step()
    assert short in rig.ended
    assert long not in rig.ended


def test_a_cut_prompt_gets_what_those_behind_it_leave_over() -> None:
    rig = make_rig()
    long = rig.arrive(prompt(1000, 1), max_tokens=1)
    rig.finish_step()
    rig.arrive(prompt(20, 2), max_tokens=1)
    rig.drain()
    shared = next(step for step in rig.steps if len(step.slices) == 2)
    assert STEP_TIME.step_s(load_of(shared)) > TARGET_S - 8 * STEP_TIME.token_s
    assert STEP_TIME.step_s(load_of(shared)) <= TARGET_S
    assert chunks_of(rig.steps, long)[-1][1] == 1000
    assert all(end % 8 == 0 for _, end in chunks_of(rig.steps, long)[:-1])


def test_several_long_prompts_all_move_and_the_oldest_moves_most() -> None:
    rig = make_rig()
    names = rig.arrive_together([prompt(600, first) for first in range(3)], max_tokens=1)
    first = rig.steps[0]
    counts = {piece.request_id: piece.count for piece in first.slices}
    assert list(counts) == names
    assert min(counts.values()) > 0
    assert counts[names[0]] == max(counts.values())
    rig.drain()


def test_room_for_less_than_a_block_beside_another_chunk_is_left_empty() -> None:
    rig = make_rig()
    names = rig.arrive_together([prompt(300, first) for first in range(3)], max_tokens=1)
    rig.drain()
    for name in names:
        assert all(end % 8 == 0 or end == 300 for _, end in chunks_of(rig.steps, name))


def test_a_token_budget_smaller_than_a_block_still_moves_a_prompt() -> None:
    rig = make_rig(budget=16, block_tokens=32)
    name = rig.arrive(prompt(70), max_tokens=1)
    rig.drain()
    assert chunks_of(rig.steps, name) == [(0, 16), (16, 32), (32, 48), (48, 64), (64, 70)]


def test_a_small_request_does_not_overtake_a_large_one_that_waits_for_blocks() -> None:
    rig = make_rig(blocks=16, max_model_len=128)
    running = rig.arrive(prompt(80), max_tokens=20, ignore_eos=True)
    large = rig.arrive(prompt(100, 1), max_tokens=1)
    small = rig.arrive(prompt(3, 2), max_tokens=1)
    while running not in rig.ended:
        assert large not in rig.ended
        assert small not in rig.ended
        rig.finish_step()
    rig.drain()
    order = [piece.request_id for step in rig.steps for piece in step.slices]
    assert order.index(large) < order.index(small)


def test_no_more_requests_run_at_once_than_allowed() -> None:
    rig = make_rig(seqs=2)
    names = rig.arrive_together([prompt(4, first) for first in range(5)], max_tokens=3)
    assert rig.core.counters().running == 2
    assert rig.core.counters().waiting == 3
    rig.drain()
    assert max(len(step.slices) for step in rig.steps) == 2
    for name in names:
        assert_right_answer(rig, name)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("length", [7, 8, 9, 31, 32, 33])
def test_a_repeated_prompt_hits_all_whole_blocks_before_its_last_token(
    length: int, groups: int
) -> None:
    rig = make_rig(groups=groups)
    first = rig.arrive(prompt(length), max_tokens=1)
    rig.drain()
    second = rig.arrive(prompt(length), max_tokens=1)
    rig.drain()
    cached = (length - 1) // 8 * 8
    assert rig.ended[first].cached_tokens == 0
    assert rig.ended[second].cached_tokens == cached
    assert chunks_of(rig.steps, second) == [(cached, length)]
    assert rig.outputs[first] == rig.outputs[second]


def test_a_follow_up_hits_the_answer_it_continues() -> None:
    rig = make_rig()
    first = rig.arrive(prompt(20), max_tokens=21, ignore_eos=True)
    rig.drain()
    conversation = [*prompt(20), *rig.outputs[first]]
    second = rig.arrive([*conversation, 1, 2, 3], max_tokens=1)
    rig.drain()
    # The last sampled token's KV was never computed: 40 of the 41 tokens are there.
    assert rig.ended[second].cached_tokens == 40


def test_other_salts_share_nothing() -> None:
    rig = make_rig()
    rig.arrive(prompt(32), max_tokens=1, salt="a")
    rig.drain()
    other = rig.arrive(prompt(32), max_tokens=1, salt="b")
    rig.drain()
    assert rig.ended[other].cached_tokens == 0


def preempted_rig() -> tuple[Rig, RequestId, RequestId]:
    """Two requests that fit together at first and not at the end."""
    rig = make_rig(blocks=6, block_tokens=4, max_model_len=24)
    older = rig.arrive(prompt(8), max_tokens=None, ignore_eos=True)
    newer = rig.arrive(prompt(8, 1), max_tokens=None, ignore_eos=True)
    rig.drain()
    return rig, older, newer


def test_preemption_takes_the_request_admitted_last_and_changes_no_answer() -> None:
    rig, older, newer = preempted_rig()
    assert rig.core.counters().preemptions >= 1
    assert LedgerStage.PREEMPTED in stages(rig, newer)
    assert LedgerStage.PREEMPTED not in stages(rig, older)
    for name in (older, newer):
        assert_right_answer(rig, name)


def test_recompute_has_its_own_ledger_stage_after_the_wait() -> None:
    rig, _, newer = preempted_rig()
    seen = stages(rig, newer)
    wait = seen.index(LedgerStage.PREEMPTED)
    assert LedgerStage.RECOMPUTE in seen[wait:]
    assert LedgerStage.RECOMPUTE not in seen[:wait]
    assert seen[-1] is LedgerStage.DECODE
    assert rig.core.counters().recomputed_tokens > 0


def test_recompute_counts_neither_as_a_prefix_query_nor_as_prefill() -> None:
    rig, _, _ = preempted_rig()
    counters = rig.core.counters()
    assert counters.prefix_queries == 2
    assert counters.prefix_queried_tokens == 16
    assert counters.prefill_tokens == 16


def test_a_second_step_is_scheduled_before_the_first_ones_result_is_known() -> None:
    rig = make_rig(outstanding=2)
    names = [rig.arrive(prompt(9, first), max_tokens=12) for first in range(3)]
    ahead = 0
    while rig.outstanding:
        ahead += len(rig.outstanding) == 2
        rig.finish_step()
    assert ahead >= 10
    for name in names:
        assert_right_answer(rig, name)


def test_a_token_needed_by_the_step_ahead_is_never_scheduled_twice() -> None:
    rig = make_rig(outstanding=3)
    name = rig.arrive(prompt(9), max_tokens=12, ignore_eos=True)
    rig.drain()
    covered = [p for start, end in chunks_of(rig.steps, name) for p in range(start, end)]
    # 9 of the prompt and 11 of the answer: the last token sampled needs no KV.
    assert covered == list(range(20))


@pytest.mark.parametrize(("base_s", "most"), [(0.25, 1), (0.05, 2)])
def test_no_step_is_made_ahead_when_the_first_alone_takes_the_target(
    base_s: float, most: int
) -> None:
    rig = make_rig(outstanding=2, step_time=StepTimeModel(base_s, 0.0, 1e-4, 0.0, 0.0))
    rig.arrive(prompt(9), max_tokens=12, ignore_eos=True)
    outstanding = set()
    while rig.outstanding:
        outstanding.add(len(rig.outstanding))
        rig.finish_step()
    assert max(outstanding) == most


def test_a_chunk_made_ahead_gets_only_what_the_first_step_left_of_the_target() -> None:
    rig = make_rig(outstanding=2)
    rig.arrive(prompt(50), max_tokens=1)
    rig.arrive(prompt(500, 1), max_tokens=1)
    # The first step holds both; nothing is left for a second one.
    assert len(rig.outstanding) in (1, 2)
    total = sum(STEP_TIME.step_s(load_of(step)) for step in rig.outstanding)
    assert total <= TARGET_S * 1.01
    rig.drain()


def test_max_tokens_one_ends_with_the_prefill_step() -> None:
    rig = make_rig(outstanding=2)
    name = rig.arrive(prompt(9), max_tokens=1, ignore_eos=True)
    rig.drain()
    assert len(rig.steps) == 1
    assert reason(rig, name) is FinishReason.LENGTH
    assert_right_answer(rig, name)


def test_the_context_length_ends_an_answer_by_length() -> None:
    rig = make_rig(max_model_len=24)
    name = rig.arrive(prompt(20), max_tokens=None, ignore_eos=True)
    rig.drain()
    assert len(rig.outputs[name]) == 4
    assert reason(rig, name) is FinishReason.LENGTH


def test_a_prompt_one_short_of_the_context_gets_one_token() -> None:
    rig = make_rig(max_model_len=24)
    name = rig.arrive(prompt(23), max_tokens=None, ignore_eos=True)
    rig.drain()
    assert len(rig.outputs[name]) == 1


def prompt_that_ends(within: int) -> list[int]:
    """A prompt whose greedy answer contains the end token, not first, soon."""
    rig = make_rig()
    for first in range(200):
        tokens = [first % 50, first // 50, 3]
        name = rig.arrive(tokens, max_tokens=within)
        answer = expected_answer(rig.requests[name], 1024)
        if answer[-1] == EOS and len(answer) > 2:
            return tokens
    raise AssertionError("the oracle's model never ends")


def test_the_end_token_stops_and_is_reported_as_the_stop_token() -> None:
    tokens = prompt_that_ends(10)
    rig = make_rig(outstanding=2)
    name = rig.arrive(tokens, max_tokens=50)
    rig.drain()
    assert rig.outputs[name][-1] == EOS
    assert reason(rig, name) is FinishReason.STOP
    assert rig.ended[name].stop_token_id == EOS
    assert_right_answer(rig, name)


def test_ignoring_the_end_token_goes_on_to_max_tokens() -> None:
    rig = make_rig()
    name = rig.arrive(prompt_that_ends(10), max_tokens=50, ignore_eos=True)
    rig.drain()
    assert EOS in rig.outputs[name]
    assert len(rig.outputs[name]) == 50
    assert reason(rig, name) is FinishReason.LENGTH
    assert rig.ended[name].stop_token_id is None


@pytest.mark.parametrize("ignore_eos", [False, True])
def test_a_stop_token_stops_with_and_without_the_end_token(ignore_eos: bool) -> None:
    rig = make_rig()
    plain = rig.arrive(prompt(9), max_tokens=12, ignore_eos=True)
    rig.drain()
    stop = rig.outputs[plain][3]
    name = rig.arrive(prompt(9), max_tokens=12, ignore_eos=ignore_eos, stop_token_ids=[stop])
    rig.drain()
    assert reason(rig, name) is FinishReason.STOP
    assert rig.ended[name].stop_token_id == stop
    assert rig.outputs[name] == rig.outputs[plain][: rig.outputs[plain].index(stop) + 1]


def test_a_token_sampled_ahead_of_the_end_is_thrown_away() -> None:
    rig = make_rig(outstanding=3)
    name = rig.arrive(prompt_that_ends(10), max_tokens=50)
    while name not in rig.ended:
        rig.finish_step()
    assert rig.outstanding
    rig.drain()
    assert_right_answer(rig, name)
    assert rig.core.counters().unbilled_s > 0


@pytest.mark.parametrize("outstanding", [1, 2])
def test_a_failed_step_ends_exactly_its_requests(outstanding: int) -> None:
    rig = make_rig(seqs=2, outstanding=outstanding)
    names = rig.arrive_together([prompt(9, first) for first in range(4)], max_tokens=6)
    failing = {piece.request_id for piece in rig.outstanding[0].slices}
    rig.finish_step(error="the device is on fire")
    assert set(rig.ended) == failing == set(names[:2])
    for name in failing:
        assert reason(rig, name) is FinishReason.ERROR
        assert rig.ended[name].error == "the device is on fire"
        assert rig.outputs[name] == []
    rig.drain()
    for name in names[2:]:
        assert_right_answer(rig, name)
    assert rig.kv.used_blocks == 0
    assert rig.core.idle


def test_a_failed_steps_tokens_are_not_cached() -> None:
    rig = make_rig()
    rig.arrive(prompt(32), max_tokens=2)
    rig.finish_step(error="lost")
    again = rig.arrive(prompt(32), max_tokens=2)
    rig.drain()
    assert rig.ended[again].cached_tokens == 0
    assert_right_answer(rig, again)


def test_a_step_that_failed_at_once_teaches_the_step_time_model_nothing() -> None:
    rig = make_rig()
    before = rig.core.estimator.model
    rig.arrive(prompt(100), max_tokens=2)
    step = rig.outstanding[0]
    rig.fail_step_at_once("no memory")
    assert rig.core.estimator.model == before
    assert before.step_s(load_of(step)) > 0.1


def filled_tier(
    tokens: list[int], *, blocks: int = 256, max_model_len: int = 1024, outstanding: int = 1
) -> Rig:
    """A rig whose lower tier holds the whole blocks of `tokens` and whose device cache is empty."""
    rig = make_rig(
        tier=OracleTier(), blocks=blocks, max_model_len=max_model_len, outstanding=outstanding
    )
    rig.arrive(tokens, max_tokens=1)
    rig.drain()
    rig.core.reset_prefix_cache()
    rig.kv.take_events()
    rig.indexed.clear()
    return rig


def test_blocks_in_the_tier_below_are_loaded_and_only_the_rest_is_computed() -> None:
    rig = filled_tier(prompt(33))
    name = rig.arrive(prompt(33), max_tokens=3)
    assert len(rig.loads) == 1
    assert not rig.outstanding
    rig.pass_time(1000)
    rig.finish_load(0, ok=True)
    rig.drain()
    assert chunks_of(rig.steps, name)[0] == (32, 33)
    assert LedgerStage.KV_LOAD in stages(rig, name)
    assert_right_answer(rig, name)


def test_a_failed_load_is_computed_instead() -> None:
    rig = filled_tier(prompt(33))
    name = rig.arrive(prompt(33), max_tokens=3)
    rig.finish_load(0, ok=False)
    rig.drain()
    assert chunks_of(rig.steps, name)[0] == (0, 33)
    assert_right_answer(rig, name)


@pytest.mark.parametrize("kind", ["load", "transfer"])
def test_nothing_is_written_to_a_block_that_an_outstanding_step_may_still_write_to(
    kind: str,
) -> None:
    tokens = prompt(33)
    rig = filled_tier(tokens, blocks=8, max_model_len=64, outstanding=2)
    holder = rig.arrive(prompt(40, 3), max_tokens=20, ignore_eos=True)
    rig.finish_step()
    while rig.stores:
        rig.finish_store(0)
    assert len(rig.outstanding) == 2
    waiting = rig.arrive(tokens, max_tokens=2, remote=32 if kind == "transfer" else 0)
    held = set(rig.kv.tables(holder)[0])
    rig.abort(holder)
    started = rig.transfers if kind == "transfer" else rig.loads
    rig.finish_step()
    # The blocks are the next request's by now, but a step may still write to them.
    assert held & set(rig.kv.tables(waiting)[0])
    assert rig.outstanding
    assert not started
    rig.finish_step()
    assert len(started) == 1
    rig.drain()
    assert_right_answer(rig, waiting)
