"""The real control plane in virtual time: repeatable, fast enough, and plausible."""

import time

import pytest

from netgain.cost.step_time import StepLoad, StepTimeModel
from netgain.engine.messages import EngineRequest, FinishReason, RequestId
from netgain.engine.sampling_params import SamplingParams
from netgain.engine.step import Step
from netgain.errors import ConfigurationError, InvalidRequestError
from netgain.ledger.record import covered_ns
from netgain.sim.clock import VirtualClock
from netgain.sim.simulator import Arrival
from tests.sim.workloads import (
    STEP_TIME,
    Traffic,
    chat_arrivals,
    make_simulator,
    mean_ttft_s,
)


def test_two_runs_of_the_same_traffic_are_equal_to_the_nanosecond() -> None:
    runs = []
    for _ in range(2):
        simulator = make_simulator(pool_blocks=140)
        done = simulator.run(chat_arrivals(Traffic(200, 200.0, mean_answer_tokens=100), seed=1))
        runs.append((done, simulator.core.counters(), simulator.clock.now_ns()))
    assert runs[0] == runs[1]
    assert runs[0][1].preemptions > 0


def test_every_request_gets_its_tokens_and_a_ledger_that_closes() -> None:
    arrivals = chat_arrivals(Traffic(200, 40.0), seed=2)
    done = make_simulator().run(arrivals)
    assert len(done) == 200
    for arrival in arrivals:
        request = done[arrival.request.id]
        assert request.finish_reason is FinishReason.LENGTH
        assert len(request.token_ids) == arrival.request.sampling.max_tokens
        assert request.ended_ns is not None
        assert request.ledger is not None
        lifetime_ns = request.ended_ns - request.arrived_ns
        covered = covered_ns(request.ledger.stages, request.arrived_ns, request.ended_ns)
        assert covered == lifetime_ns


def test_requests_alone_take_exactly_the_modelled_time() -> None:
    request = EngineRequest(
        id=RequestId("x"),
        prompt_ids=tuple(range(2, 102)),
        sampling=SamplingParams(temperature=0.0, max_tokens=3),
    )
    done = make_simulator().run([Arrival(5_000, request)])[request.id]
    steps = [(0, 100), (100, 1), (101, 1)]
    seconds = [STEP_TIME.step_s(StepLoad.of([piece])) for piece in steps]
    assert done.first_token_ns is not None
    assert done.first_token_ns - 5_000 == pytest.approx(seconds[0] * 1e9, abs=1)
    assert done.ended_ns is not None
    assert done.ended_ns - 5_000 == pytest.approx(sum(seconds) * 1e9, abs=3)


def test_virtual_time_never_goes_back() -> None:
    clock = VirtualClock(10)
    clock.advance_to(10)
    with pytest.raises(ValueError, match="cannot go back"):
        clock.advance_to(9)


def test_steps_are_submitted_in_the_order_of_their_time() -> None:
    submitted: list[tuple[int, Step]] = []
    simulator = make_simulator(on_step=lambda step, at_ns: submitted.append((at_ns, step)))
    simulator.run(chat_arrivals(Traffic(50, 40.0), seed=3))
    times = [at_ns for at_ns, _ in submitted]
    assert times == sorted(times)
    assert [step.id for _, step in submitted] == list(range(1, len(submitted) + 1))


def test_arrivals_may_be_given_in_any_order() -> None:
    arrivals = chat_arrivals(Traffic(50, 40.0), seed=4)
    assert make_simulator().run(arrivals) == make_simulator().run(arrivals[::-1])


def test_shared_system_prompts_are_found_in_the_cache() -> None:
    simulator = make_simulator()
    simulator.run(chat_arrivals(Traffic(200, 20.0, system_prompts=4), seed=5))
    counters = simulator.core.counters()
    # All but the first of each system prompt, and those that came before it was computed.
    assert counters.prefix_hits > 180
    assert counters.prefix_hit_tokens >= 180 * 64


def test_more_arrivals_a_second_wait_longer_for_their_first_token() -> None:
    ttft_s = [
        mean_ttft_s(list(make_simulator().run(chat_arrivals(Traffic(300, rate), seed=6)).values()))
        for rate in (2.0, 30.0, 300.0)
    ]
    assert ttft_s[0] < ttft_s[1] < ttft_s[2]


def test_deadlines_end_requests_at_their_time() -> None:
    timeout_ns = 2_000_000_000
    done = make_simulator().run(chat_arrivals(Traffic(300, 300.0, timeout_ns=timeout_ns), seed=7))
    late = [r for r in done.values() if r.finish_reason is FinishReason.TIMEOUT]
    assert 0 < len(late) < 300
    assert all(r.ended_ns == r.arrived_ns + timeout_ns for r in late)


def test_ten_thousand_requests_take_less_than_a_minute() -> None:
    arrivals = chat_arrivals(Traffic(10_000, 25.0), seed=8)
    began = time.perf_counter()
    done = make_simulator().run(arrivals)
    assert time.perf_counter() - began < 60
    assert all(request.finish_reason is FinishReason.LENGTH for request in done.values())


@pytest.mark.parametrize("at", [float("nan"), 1.5, -1])
def test_an_arrival_at_no_time_is_refused(at: int) -> None:
    request = EngineRequest(id=RequestId("r"), prompt_ids=(1,), sampling=SamplingParams())
    with pytest.raises(InvalidRequestError, match="whole number"):
        Arrival(at, request)


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -1.0, 1e300])
def test_an_impossible_step_time_is_refused(seconds: float) -> None:
    with pytest.raises(ConfigurationError, match="token_s"):
        StepTimeModel(0.1, 0.0, seconds, 0.0, 0.0)
