"""The core loop: refusals, deadlines, aborts, and who is billed for what."""

from itertools import pairwise

import pytest

from netgain.cost.step_time import StepLoad
from netgain.engine.events import (
    Action,
    EmitOutputs,
    RequestAborted,
    RequestArrived,
    SetTimer,
    TimerFired,
)
from netgain.engine.messages import EngineRequest, FinishReason, RequestId, RequestOutput
from netgain.engine.sampling_params import SamplingParams
from netgain.ledger.record import Handoff, NetGain
from netgain.ledger.stages import HandoffKind, LedgerStage, Technique
from netgain.sim.clock import VirtualClock
from tests.engine.device_oracle import OracleTier, Rig
from tests.engine.rigs import (
    STEP_TIME,
    TARGET_S,
    assert_right_answer,
    ledger,
    make_rig,
    prompt,
    reason,
    stages,
)

GREEDY = SamplingParams(temperature=0.0, max_tokens=4)
MS = 1_000_000


def emitted(actions: list[Action]) -> list[RequestOutput]:
    return [output for a in actions if isinstance(a, EmitOutputs) for output in a.outputs]


def refused(rig: Rig, request: EngineRequest, remote_tokens: int = 0) -> str:
    """The error with which the core turns a request away, and nothing else that it does."""
    (output,) = emitted(
        rig.core.on_events([RequestArrived(request, remote_tokens)], rig.clock.now_ns())
    )
    assert output.id == request.id
    assert output.finish_reason is FinishReason.ERROR
    assert output.error is not None
    return output.error


def test_a_second_request_with_an_id_in_use_is_refused_and_the_first_goes_on() -> None:
    rig = make_rig()
    name = rig.arrive(prompt(9), max_tokens=6)
    error = refused(rig, EngineRequest(id=name, prompt_ids=(1, 2), sampling=GREEDY))
    assert name in error
    rig.drain()
    assert_right_answer(rig, name)
    assert rig.core.counters().requests_arrived == 1


@pytest.mark.parametrize(
    ("length", "fits"), [(0, False), (1, True), (63, True), (64, False), (65, False)]
)
def test_a_prompt_must_leave_room_for_an_answer(length: int, fits: bool) -> None:
    rig = make_rig(max_model_len=64)
    neighbour = rig.arrive(prompt(9), max_tokens=6)
    name = rig.arrive([1] * length, max_tokens=1)
    rig.drain()
    assert len(rig.outputs[name]) == fits
    assert (reason(rig, name) is FinishReason.ERROR) == (not fits)
    if not fits:
        assert str(length) in (rig.ended[name].error or "")
    assert_right_answer(rig, neighbour)


@pytest.mark.parametrize("remote_tokens", [-1, 9, 10])
def test_more_remote_tokens_than_the_prompt_can_have_are_refused(remote_tokens: int) -> None:
    rig = make_rig()
    request = EngineRequest(id=RequestId("x"), prompt_ids=tuple(prompt(9)), sampling=GREEDY)
    assert "elsewhere" in refused(rig, request, remote_tokens)
    assert rig.core.idle


def test_an_id_may_be_used_again_once_its_request_ended() -> None:
    rig = make_rig()
    request = EngineRequest(id=RequestId("r0"), prompt_ids=tuple(prompt(9)), sampling=GREEDY)
    first = rig.arrive(prompt(9), max_tokens=4)
    rig.drain()
    answer = list(rig.outputs[first])
    del rig.ended[first]
    rig.outputs[first].clear()
    rig.send(RequestArrived(request))
    rig.drain()
    assert rig.outputs[first] == answer


def test_an_id_whose_blocks_are_still_being_written_to_is_refused() -> None:
    rig = make_rig(tier=OracleTier())
    name = rig.arrive(prompt(33), remote=32)
    rig.abort(name)
    error = refused(rig, EngineRequest(id=name, prompt_ids=(1, 2), sampling=GREEDY))
    assert name in error
    rig.finish_transfer(0, ok=True)
    assert rig.kv.used_blocks == 0


def test_a_deadline_asks_for_a_timer_at_its_time() -> None:
    rig = make_rig()
    rig.pass_time(7)
    rig.arrive(prompt(9), timeout_ns=100)
    rig.arrive(prompt(9), timeout_ns=200)
    rig.arrive(prompt(9), timeout_ns=50)
    assert rig.timers == [107, 57]


def test_after_a_timer_fired_the_next_deadline_asks_for_its_own() -> None:
    rig = make_rig()
    rig.arrive(prompt(9), timeout_ns=100)
    rig.arrive(prompt(9), timeout_ns=200)
    rig.clock.advance_to(100)
    actions = rig.core.on_events([TimerFired()], 100)
    assert [output.finish_reason for output in emitted(actions)] == [FinishReason.TIMEOUT]
    assert [a.at_ns for a in actions if isinstance(a, SetTimer)] == [200]


def test_no_deadline_asks_for_no_timer() -> None:
    rig = make_rig()
    rig.arrive(prompt(9), timeout_ns=None)
    rig.drain()
    assert rig.timers == []


def assert_timed_out(rig: Rig, name: RequestId, last_stage: LedgerStage) -> None:
    assert reason(rig, name) is FinishReason.TIMEOUT
    assert stages(rig, name)[-1] is last_stage
    assert ledger(rig, name).stages[-1].end_ns == rig.clock.now_ns()


def test_a_deadline_ends_a_waiting_request() -> None:
    rig = make_rig(seqs=1)
    other = rig.arrive(prompt(9), max_tokens=4)
    name = rig.arrive(prompt(9, 1), timeout_ns=MS)
    rig.pass_time(MS)
    assert_timed_out(rig, name, LedgerStage.QUEUE)
    rig.drain()
    assert_right_answer(rig, other)
    assert rig.core.idle


def test_a_deadline_ends_a_request_in_the_middle_of_its_prefill() -> None:
    rig = make_rig()
    name = rig.arrive(prompt(500), timeout_ns=10_000 * MS)
    rig.finish_step()
    rig.pass_time(10_000 * MS)
    assert_timed_out(rig, name, LedgerStage.PREFILL)
    assert rig.outputs[name] == []
    assert rig.kv.used_blocks == 0
    rig.drain()
    assert rig.core.idle


def test_a_deadline_ends_a_decoding_request_which_keeps_its_tokens() -> None:
    rig = make_rig()
    name = rig.arrive(prompt(9), max_tokens=50, ignore_eos=True, timeout_ns=10_000 * MS)
    for _ in range(5):
        rig.finish_step()
    rig.pass_time(10_000 * MS)
    assert_timed_out(rig, name, LedgerStage.DECODE)
    assert len(rig.outputs[name]) == 5
    rig.drain()
    assert rig.core.idle


def test_a_deadline_ends_a_request_that_awaits_kv_and_its_blocks_stay_until_it_came() -> None:
    rig = make_rig(tier=OracleTier())
    name = rig.arrive(prompt(33), remote=32, timeout_ns=MS)
    rig.pass_time(MS)
    assert_timed_out(rig, name, LedgerStage.KV_TRANSFER)
    assert rig.kv.used_blocks == 5
    rig.finish_transfer(0, ok=True)
    assert rig.kv.used_blocks == 0
    assert rig.core.idle


def test_a_deadline_ends_a_preempted_request() -> None:
    rig = make_rig(blocks=6, block_tokens=4, max_model_len=24)
    rig.arrive(prompt(8), max_tokens=None, ignore_eos=True)
    name = rig.arrive(prompt(8, 1), max_tokens=None, ignore_eos=True, timeout_ns=60_000 * MS)
    while not rig.core.counters().preemptions:
        rig.finish_step()
    rig.pass_time(60_000 * MS)
    assert_timed_out(rig, name, LedgerStage.PREEMPTED)
    rig.drain()
    assert rig.core.idle


def test_a_request_that_ends_in_time_is_not_timed_out() -> None:
    rig = make_rig()
    name = rig.arrive(prompt(9), max_tokens=2, ignore_eos=True, timeout_ns=60_000 * MS)
    rig.drain()
    assert reason(rig, name) is FinishReason.LENGTH
    rig.pass_time(60_000 * MS)
    assert rig.core.idle


def test_a_deadline_of_an_ended_request_does_not_end_another_with_its_id() -> None:
    rig = make_rig()
    rig.arrive(prompt(9, 1), max_tokens=900, ignore_eos=True, timeout_ns=4_000 * MS)
    name = rig.arrive(prompt(9), max_tokens=2, timeout_ns=5_000 * MS)
    while name not in rig.ended:
        rig.finish_step()
    del rig.ended[name]
    again = EngineRequest(
        id=name,
        prompt_ids=tuple(prompt(9)),
        sampling=SamplingParams(temperature=0.0, max_tokens=900, ignore_eos=True),
        timeout_ns=60_000 * MS,
    )
    rig.requests[name] = again
    rig.send(RequestArrived(again))
    rig.pass_time(6_000 * MS)
    assert name not in rig.ended


@pytest.mark.parametrize("wanted", [FinishReason.STOP, FinishReason.ABORT])
def test_an_abort_ends_a_request_with_the_reason_given(wanted: FinishReason) -> None:
    rig = make_rig()
    name = rig.arrive(prompt(9), max_tokens=50, ignore_eos=True)
    rig.finish_step()
    rig.abort(name, wanted)
    assert reason(rig, name) is wanted
    assert rig.core.counters().requests_aborted == (wanted is FinishReason.ABORT)
    assert rig.kv.used_blocks == 0
    rig.drain()
    assert rig.core.idle


def test_aborting_an_unknown_or_ended_request_does_nothing() -> None:
    rig = make_rig()
    name = rig.arrive(prompt(9), max_tokens=1)
    rig.drain()
    assert rig.core.on_events([RequestAborted(RequestId("nobody"))], 0) == []
    assert rig.core.on_events([RequestAborted(name)], 0) == []
    assert rig.core.counters().requests_aborted == 0


def test_a_request_aborted_in_the_turn_it_arrives_never_runs() -> None:
    rig = make_rig()
    request = EngineRequest(id=RequestId("x"), prompt_ids=(1, 2), sampling=GREEDY)
    rig.requests[request.id], rig.outputs[request.id] = request, []
    rig.send(RequestArrived(request), RequestAborted(request.id))
    assert reason(rig, request.id) is FinishReason.ABORT
    assert rig.steps == []


def test_the_executor_is_told_to_forget_an_aborted_request() -> None:
    rig = make_rig()
    name = rig.arrive(prompt(9), max_tokens=50, ignore_eos=True)
    other = rig.arrive(prompt(9, 1), max_tokens=5, ignore_eos=True)
    rig.finish_step()
    rig.abort(name)
    rig.drain()
    assert [step.released for step in rig.steps if step.released] == [(name,)]
    assert_right_answer(rig, other)


# Who pays


def billed_s(rig: Rig) -> float:
    return sum(ledger(rig, name).cost_s for name in rig.ended)


def test_costs_add_up_to_busy_time_also_when_requests_end_early() -> None:
    rig = make_rig(outstanding=2)
    names = rig.arrive_together([prompt(60, first) for first in range(4)], max_tokens=20)
    rig.finish_step()
    rig.finish_step()
    rig.abort(names[1])
    rig.finish_step()
    rig.finish_step(error="lost")
    rig.arrive(prompt(40, 7), max_tokens=5)
    rig.drain()
    counters = rig.core.counters()
    assert counters.busy_s > 0
    assert counters.unbilled_s > 0
    assert billed_s(rig) + counters.unbilled_s == pytest.approx(counters.busy_s, rel=1e-9)


def test_a_step_is_billed_by_what_each_slice_adds_to_it() -> None:
    rig = make_rig()
    long, short = rig.arrive_together([prompt(100), prompt(10, 1)], max_tokens=1)
    model = rig.core.estimator.model
    rig.drain()
    weights = [model.slice_own_s(0, 100), model.slice_own_s(0, 10)]
    ratio = ledger(rig, long).cost_s / ledger(rig, short).cost_s
    assert ratio == pytest.approx(weights[0] / weights[1])


def test_decoding_alone_and_prefilling_alone_are_not_interfered_with() -> None:
    rig = make_rig()
    rig.arrive(prompt(100), max_tokens=10, ignore_eos=True)
    rig.drain()
    rig.arrive_together([prompt(50, 1), prompt(50, 2)], max_tokens=1)
    rig.drain()
    assert rig.core.counters().interference_s == 0.0
    assert all(ledger(rig, name).interference_s == 0.0 for name in rig.ended)


def test_a_decode_that_shares_its_step_with_a_chunk_is_charged_what_the_chunk_added() -> None:
    rig = make_rig()
    decoder = rig.arrive(prompt(16), max_tokens=3, ignore_eos=True)
    rig.finish_step()
    newcomer = rig.arrive(prompt(100, 1), max_tokens=1)
    rig.finish_step()  # decode alone: it was scheduled before the newcomer came
    rig.finish_step()  # both
    rig.drain()
    mixed = [step for step in rig.steps if len(step.slices) == 2]
    assert len(mixed) == 1
    lost_s = STEP_TIME.slice_own_s(0, 100)
    assert ledger(rig, decoder).interference_s == pytest.approx(lost_s, rel=0.02)
    assert ledger(rig, newcomer).interference_s == 0.0
    assert rig.core.counters().interference_s == pytest.approx(lost_s, rel=0.02)


class TickingClock(VirtualClock):
    """Every look at the clock takes a microsecond."""

    def now_ns(self) -> int:
        self.advance_to(super().now_ns() + 1000)
        return super().now_ns()


def gain(rig: Rig, name: RequestId) -> NetGain:
    return ledger(rig, name).net_gain[Technique.PREFIX_CACHE]


def test_a_hit_alone_saves_the_modelled_steps_that_it_avoids() -> None:
    rig = make_rig()
    rig.arrive(prompt(400), max_tokens=1)
    rig.drain()
    model = rig.core.estimator.model
    name = rig.arrive(prompt(400), max_tokens=1)
    rig.drain()
    hit = rig.ended[name].cached_tokens
    assert hit == 392
    chunk = model.largest_chunk(StepLoad(), 0, TARGET_S)
    assert chunk < 392
    saved_s = model.prefill_s(0, 400, chunk) - model.prefill_s(392, 8, chunk)
    assert gain(rig, name).saved_s == pytest.approx(saved_s)


def test_a_hit_beside_others_saves_only_its_own_part_of_their_steps() -> None:
    rig = make_rig()
    rig.arrive(prompt(65), max_tokens=1)
    rig.drain()
    rig.arrive(prompt(9, 1), max_tokens=20, ignore_eos=True)
    rig.finish_step()
    model = rig.core.estimator.model
    name = rig.arrive(prompt(65), max_tokens=1)
    rig.finish_step()
    rig.drain()
    assert gain(rig, name).saved_s == pytest.approx(model.slice_own_s(0, 64), rel=1e-3)


def test_a_miss_saves_nothing_and_the_look_up_still_costs() -> None:
    rig = make_rig(clock=TickingClock())
    name = rig.arrive(prompt(65), max_tokens=1)
    rig.drain()
    assert gain(rig, name).saved_s == 0.0
    assert gain(rig, name).cost_s > 0
    assert gain(rig, name).net_s < 0


def test_the_engines_net_gain_is_the_sum_of_its_requests() -> None:
    rig = make_rig(clock=TickingClock())
    for first in (0, 0, 1, 0):
        rig.arrive(prompt(65, first), max_tokens=3)
        rig.drain()
    total = rig.core.counters().net_gain[Technique.PREFIX_CACHE]
    gains = [gain(rig, name) for name in rig.ended]
    assert total.saved_s == pytest.approx(sum(g.saved_s for g in gains))
    assert total.cost_s == pytest.approx(sum(g.cost_s for g in gains))
    assert total.saved_s > 0


def test_a_look_up_is_a_handoff_with_the_tokens_it_found() -> None:
    rig = make_rig()
    for _ in range(2):
        name = rig.arrive(prompt(65), max_tokens=1)
        rig.drain()
    (handoff,) = ledger(rig, name).handoffs
    assert isinstance(handoff, Handoff)
    assert (handoff.kind, handoff.tokens) == (HandoffKind.CACHE_LOOKUP, 64)


def test_a_ledger_is_contiguous_from_arrival_to_the_last_step() -> None:
    rig = make_rig(blocks=6, block_tokens=4, max_model_len=24, clock=TickingClock())
    for first in range(3):
        rig.arrive(prompt(8, first), max_tokens=None, ignore_eos=True)
    rig.drain()
    for name in rig.ended:
        record = ledger(rig, name).stages
        for left, right in pairwise(record):
            assert left.end_ns == right.start_ns


def test_prefix_counters_count_each_request_once_by_tokens_and_by_requests() -> None:
    rig = make_rig()
    for length in (20, 20, 30):
        rig.arrive(prompt(length), max_tokens=1)
        rig.drain()
    counters = rig.core.counters()
    assert (counters.prefix_queries, counters.prefix_hits) == (3, 2)
    assert (counters.prefix_queried_tokens, counters.prefix_hit_tokens) == (70, 32)
    assert counters.prefill_tokens == 70 - 32


def test_without_a_prefix_cache_nothing_is_counted_or_looked_up() -> None:
    rig = make_rig(prefix_cache=False)
    for _ in range(2):
        name = rig.arrive(prompt(20), max_tokens=1)
        rig.drain()
    counters = rig.core.counters()
    assert (counters.prefix_queries, counters.net_gain) == (0, {})
    assert ledger(rig, name).handoffs == ()


def test_a_transfer_that_came_leaves_only_the_rest_to_compute() -> None:
    rig = make_rig(tier=OracleTier())
    name = rig.arrive(prompt(33), remote=30, max_tokens=3)
    rig.pass_time(MS)
    rig.finish_transfer(0, ok=True)
    assert [(p.start, p.count) for p in rig.steps[0].slices] == [(30, 3)]
    rig.drain()
    assert stages(rig, name)[0] is LedgerStage.KV_TRANSFER
    assert_right_answer(rig, name)
