"""Whatever happens in whatever order: right answers, nothing leaked, every request ends."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from netgain.config import SchedulerSettings
from netgain.engine.messages import EngineRequest, FinishReason, RequestId
from netgain.engine.sampling_params import SamplingParams
from tests.engine.device_oracle import EOS, OracleTier, Rig, expected_answer

OPERATIONS = ["arrive", "arrive", "group", "step", "step", "step", "step", "abort", "time"]
KV_OPERATIONS = ["load", "load_fails", "transfer", "transfer_fails", "store"]


def run_life(data: st.DataObject, *, with_tier: bool) -> Rig:
    draw = data.draw
    block_tokens = draw(st.integers(1, 5), "block_tokens")
    max_model_len = draw(st.integers(2, 24), "max_model_len")
    longest = -(-max_model_len // block_tokens)
    budget = draw(st.integers(16, 24), "max_num_batched_tokens")
    rig = Rig(
        SchedulerSettings(
            max_num_seqs=draw(st.integers(1, 5), "max_num_seqs"),
            max_num_batched_tokens=budget,
            step_time_target_s=draw(st.sampled_from([0.004, 0.02, 10.0]), "target"),
            max_outstanding_steps=draw(st.integers(1, 3), "outstanding"),
        ),
        blocks=longest + draw(st.integers(0, 6), "spare blocks"),
        block_tokens=block_tokens,
        max_model_len=max_model_len,
        groups=draw(st.integers(1, 2), "groups"),
        prefix_cache=draw(st.booleans(), "prefix_cache"),
        tier=OracleTier() if with_tier else None,
    )
    operations = OPERATIONS + (KV_OPERATIONS if with_tier else [])
    for _ in range(draw(st.integers(1, 40), "operations")):
        operation = draw(st.sampled_from(operations), "operation")
        if operation == "arrive":
            length = draw(st.integers(1, max_model_len - 1), "prompt length")
            # Few distinct prompts, so that prefixes are shared and salts matter.
            base = draw(st.integers(0, 2), "prompt")
            remote = draw(st.sampled_from([0, 0, length - 1]), "remote") if with_tier else 0
            rig.arrive(
                [(base + position) % 5 for position in range(length)],
                max_tokens=draw(st.sampled_from([1, 3, 12, None]), "max_tokens"),
                salt=draw(st.sampled_from(["", "tenant"]), "salt"),
                remote=remote,
                timeout_ns=draw(st.sampled_from([None, None, 30_000_000]), "timeout"),
                ignore_eos=draw(st.booleans(), "ignore_eos"),
            )
        elif operation == "group":
            arrive_group(rig, data, max_model_len)
        elif operation == "step" and rig.outstanding:
            rig.finish_step()
        elif operation == "abort" and rig.requests:
            rig.abort(draw(st.sampled_from(sorted(rig.requests)), "aborted"))
        elif operation == "time":
            rig.pass_time(5_000_000)
        elif operation in ("load", "load_fails") and rig.loads:
            rig.finish_load(len(rig.loads) - 1, ok=operation == "load")
        elif operation in ("transfer", "transfer_fails") and rig.transfers:
            rig.finish_transfer(len(rig.transfers) - 1, ok=operation == "transfer")
        elif operation == "store" and rig.stores:
            rig.finish_store(0)
    rig.drain()
    return rig


def arrive_group(rig: Rig, data: st.DataObject, max_model_len: int) -> None:
    """Samples of one prompt, of which something may be wanted at every position."""
    draw = data.draw
    length = draw(st.integers(1, max_model_len - 1), "prompt length")
    pooling = draw(st.booleans(), "pooling")
    request = EngineRequest(
        id=RequestId(f"g{len(rig.requests)}"),
        prompt_ids=tuple((1 + position) % 5 for position in range(length)),
        sampling=SamplingParams(
            temperature=0.0,
            max_tokens=draw(st.sampled_from([1, 3, 12]), "max_tokens"),
            ignore_eos=True,
            prompt_logprobs=draw(st.sampled_from([None, 0]), "prompt_logprobs"),
        ),
        salt=draw(st.sampled_from(["", "tenant"]), "salt"),
        timeout_ns=draw(st.sampled_from([None, None, 30_000_000]), "timeout"),
        pooling=pooling,
    )
    rig.submit(*request.samples(draw(st.integers(1, 4), "n")))


def assert_all_ended_well(rig: Rig) -> None:
    assert set(rig.ended) == set(rig.requests), "a request never ended"
    assert rig.core.idle
    assert rig.kv.used_blocks == 0, "blocks leaked"
    for request_id, request in rig.requests.items():
        reason = rig.ended[request_id].finish_reason
        if request.pooling:
            assert rig.outputs[request_id] == []
            assert reason in (FinishReason.ABORT, FinishReason.TIMEOUT, FinishReason.STOP)
            continue
        expected = expected_answer(request, rig.core.max_model_len)
        answer = rig.outputs[request_id]
        if reason in (FinishReason.ABORT, FinishReason.TIMEOUT):
            assert answer == expected[: len(answer)]
            continue
        assert answer == expected
        stopped = bool(expected) and expected[-1] == EOS and not request.sampling.ignore_eos
        assert reason is (FinishReason.STOP if stopped else FinishReason.LENGTH)


def assert_costs_add_up(rig: Rig) -> None:
    counters = rig.core.counters()
    billed = sum(o.ledger.cost_s for o in rig.ended.values() if o.ledger is not None)
    assert billed + counters.unbilled_s == pytest.approx(counters.busy_s, abs=1e-9)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_every_request_ends_with_its_solo_answer_and_no_block_leaks(data: st.DataObject) -> None:
    rig = run_life(data, with_tier=False)
    assert_all_ended_well(rig)
    assert_costs_add_up(rig)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_loads_stores_and_transfers_that_succeed_or_fail_change_no_answer(
    data: st.DataObject,
) -> None:
    rig = run_life(data, with_tier=True)
    assert_all_ended_well(rig)
