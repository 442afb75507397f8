"""Several samples of one prompt: computed once, shared, ended together."""

import msgspec
import pytest

from netgain.engine.messages import EngineRequest, FinishReason, RequestId
from netgain.engine.sampling_params import MAX_SAMPLES, SamplingParams
from netgain.errors import InvalidRequestError
from tests.engine.device_oracle import EOS, Rig, next_token
from tests.engine.rigs import assert_right_answer, make_rig, prompt, reason


def request(**fields: object) -> EngineRequest:
    return EngineRequest(
        id=RequestId("x"),
        prompt_ids=(1, 2),
        sampling=SamplingParams(**fields),  # type: ignore[arg-type]
    )


def computed(rig: Rig) -> int:
    """Tokens that the device was given."""
    return sum(step.tokens for step in rig.steps)


def peak_blocks(rig: Rig) -> int:
    """Most blocks in use at the end of any step."""
    most = 0
    while rig.outstanding:
        rig.finish_step()
        most = max(most, rig.core.counters().kv_blocks_used)
    return most


def test_the_first_sample_is_the_request_itself_and_the_others_wait_for_it() -> None:
    one = request(seed=4, prompt_logprobs=3, logprobs=2)
    first, *others = one.samples(3)
    assert first is one
    assert [other.id for other in others] == ["x-1", "x-2"]
    assert [other.sample_index for other in others] == [1, 2]
    assert {other.waits_for for other in others} == {"x"}
    assert {other.sampling.prompt_logprobs for other in others} == {None}
    assert {other.sampling.logprobs for other in others} == {2}
    assert one.samples(1) == (one,)


@pytest.mark.parametrize("n", [0, -1, MAX_SAMPLES + 1])
def test_a_number_of_samples_out_of_range_is_refused(n: int) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        request().samples(n)
    assert refused.value.param == "n"


def test_msgpack_keeps_a_samples_place() -> None:
    sample = request().samples(2)[1]
    packed = msgspec.msgpack.encode(sample)
    assert msgspec.msgpack.decode(packed, type=EngineRequest) == sample


@pytest.mark.parametrize("salt", ["", "tenant"])
@pytest.mark.parametrize("length", [40, 41, 47, 48])
def test_the_prompts_full_blocks_are_computed_once(salt: str, length: int) -> None:
    rig = make_rig(block_tokens=8)
    ids = rig.arrive_samples(prompt(length), 4, salt=salt)
    assert rig.core.counters().waiting == 3
    rig.drain()
    for request_id in ids:
        assert_right_answer(rig, request_id)
    shared = (length - 1) // 8 * 8
    assert [rig.ended[request_id].cached_tokens for request_id in ids] == [0, *[shared] * 3]
    assert computed(rig) == length + 3 * (length - shared) + 4 * 7
    assert rig.core.counters().kv_blocks_used == 0


def test_four_samples_of_a_long_prompt_take_less_than_twice_the_blocks_of_one() -> None:
    used = []
    for n in (1, 4):
        rig = make_rig(block_tokens=8)
        rig.arrive_samples(prompt(400), n)
        used.append(peak_blocks(rig))
    assert used[0] >= 50
    assert used[1] < 2 * used[0]


def test_samples_wait_for_all_chunks_of_the_prompt() -> None:
    rig = make_rig(budget=16, seqs=4, block_tokens=8)
    rig.arrive_samples(prompt(60), 3)
    while sum(step.tokens for step in rig.steps[: len(rig.steps) - len(rig.outstanding)]) < 60:
        assert {piece.request_id for step in rig.steps for piece in step.slices} == {"r0"}
        rig.finish_step()
    rig.drain()
    assert len(rig.ended) == 3
    assert computed(rig) == 60 + 2 * 4 + 3 * 7


def test_whoever_queues_behind_the_samples_waits_no_longer_for_it() -> None:
    rig = make_rig(budget=16, seqs=4, block_tokens=8)
    rig.arrive_samples(prompt(200), 2)
    behind = rig.arrive(prompt(6, first=3))
    rig.finish_step()
    rig.finish_step()
    rig.finish_step()
    assert rig.outputs[behind]


def test_samples_are_admitted_before_those_that_came_after_them() -> None:
    rig = make_rig(seqs=2, block_tokens=8)
    ids = rig.arrive_samples(prompt(30), 2, max_tokens=20)
    behind = [rig.arrive(prompt(9, first=2 + n), max_tokens=20) for n in range(2)]
    rig.finish_step()
    rig.finish_step()
    assert rig.outputs[ids[1]]
    assert not any(rig.outputs[request_id] for request_id in behind)


def ended(rig: Rig) -> dict[RequestId, FinishReason | None]:
    return {request_id: output.finish_reason for request_id, output in rig.ended.items()}


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_cancelling_the_first_sample_cancels_all(steps: int) -> None:
    rig = make_rig(block_tokens=8)
    ids = rig.arrive_samples(prompt(30), 3, max_tokens=50)
    other = rig.arrive(prompt(9, first=2))
    for _ in range(steps):
        rig.finish_step()
    rig.abort(ids[0])
    assert ended(rig) == dict.fromkeys(ids, FinishReason.ABORT)
    counters = rig.core.counters()
    assert counters.waiting + counters.running == 1
    assert counters.requests_aborted == 3
    rig.drain()
    assert_right_answer(rig, other)
    assert rig.core.counters().kv_blocks_used == 0


@pytest.mark.parametrize("steps", [0, 2])
def test_another_sample_is_cancelled_alone(steps: int) -> None:
    rig = make_rig(block_tokens=8)
    ids = rig.arrive_samples(prompt(30), 3)
    for _ in range(steps):
        rig.finish_step()
    rig.abort(ids[1])
    assert ended(rig) == {ids[1]: FinishReason.ABORT}
    rig.drain()
    assert_right_answer(rig, ids[0])
    assert_right_answer(rig, ids[2])


@pytest.mark.parametrize("why", [FinishReason.STOP, FinishReason.TIMEOUT])
def test_if_the_first_sample_ends_early_the_others_compute_the_prompt(why: FinishReason) -> None:
    rig = make_rig(budget=16, seqs=4, block_tokens=8)
    ids = rig.arrive_samples(prompt(60), 3)
    rig.finish_step()
    rig.abort(ids[0], why)
    rig.drain()
    assert reason(rig, ids[0]) is why
    assert_right_answer(rig, ids[1])
    assert_right_answer(rig, ids[2])


def test_a_failed_first_step_fails_the_first_sample_only() -> None:
    rig = make_rig(block_tokens=8)
    ids = rig.arrive_samples(prompt(30), 3)
    rig.fail_step_at_once("out of memory")
    assert ended(rig) == {ids[0]: FinishReason.ERROR}
    rig.drain()
    assert_right_answer(rig, ids[1])
    assert_right_answer(rig, ids[2])


def test_samples_time_out_where_they_wait() -> None:
    rig = make_rig(budget=16, seqs=4, block_tokens=8)
    ids = rig.arrive_samples(prompt(200), 3, timeout_ns=1_000_000)
    rig.pass_time(2_000_000)
    assert ended(rig) == dict.fromkeys(ids, FinishReason.TIMEOUT)
    rig.drain()
    assert rig.core.idle


def test_a_sample_of_a_request_that_has_ended_waits_for_nobody() -> None:
    rig = make_rig(block_tokens=8)
    first = rig.arrive(prompt(30), ignore_eos=True)
    rig.drain()
    late = rig.requests[first].samples(2)[1]
    rig.submit(late)
    rig.drain()
    assert_right_answer(rig, late.id)
    assert rig.ended[late.id].cached_tokens == 24


def test_samples_in_a_pool_for_one_are_all_answered() -> None:
    rig = make_rig(block_tokens=4, blocks=32, max_model_len=128)
    ids = rig.arrive_samples(prompt(60), 5, max_tokens=40)
    rig.drain()
    assert rig.core.counters().preemptions > 0
    for request_id in ids:
        assert_right_answer(rig, request_id)


def test_samples_have_seeds_of_their_own_that_follow_from_the_first() -> None:
    rig = make_rig()
    sampling = SamplingParams(seed=11)
    one = EngineRequest(id=RequestId("g"), prompt_ids=(1, 2, 3), sampling=sampling)
    rig.submit(*one.samples(3))
    rig.drain()
    seeds = {new.request_id: new.seed for step in rig.steps for new in step.new}
    assert seeds[one.id] == 11
    assert len(set(seeds.values())) == 3


def stopping_prompt() -> list[int]:
    """One that the oracle answers with an end of sequence among the first tokens."""
    for first in range(1000):
        tokens = [*prompt(6, first), first % 50]
        answer = list(tokens)
        for _ in range(3):
            answer.append(next_token(answer))
        if EOS in answer[len(tokens) :] and EOS not in tokens:
            return tokens
    raise AssertionError("no prompt is answered so")


def test_an_end_of_sequence_before_min_tokens_ends_nothing() -> None:
    """The oracle draws what it likes; whoever has nothing else left to draw does so too."""
    tokens = stopping_prompt()
    for min_tokens, earliest in ((0, 1), (6, 7)):
        rig = make_rig()
        sampling = SamplingParams(temperature=0.0, max_tokens=30, min_tokens=min_tokens)
        arrived = EngineRequest(id=RequestId("m"), prompt_ids=tuple(tokens), sampling=sampling)
        rig.submit(arrived)
        rig.drain()
        answer = rig.outputs[arrived.id]
        assert len(answer) >= earliest
        assert (len(answer) <= 3) is (min_tokens == 0)
        assert rig.steps[0].new[0].banned_ids == ((EOS,) if min_tokens else ())
