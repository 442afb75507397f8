"""One request list through the real executor and the simulated one: the same schedule."""

import random
from pathlib import Path

import pytest

from netgain import LLM, SamplingParams
from netgain.config import SchedulerSettings
from netgain.cost.step_time import StepTimeEstimator
from netgain.engine.core import EngineCore
from netgain.engine.events import RequestArrived, StepDone, SubmitStep
from netgain.engine.runner import Journal
from netgain.engine.step import Step, StepId, StepResult
from netgain.kv.manager import KVManager
from netgain.sim.clock import VirtualClock
from netgain.sim.simulator import Arrival, Simulator
from netgain.sim.step_outcome import ReplayedOutcome

pytestmark = pytest.mark.model

BLOCKS = 40
MAX_LEN = 256


def replay(journal: Journal, estimator: StepTimeEstimator) -> tuple[list[Step], Simulator]:
    """The journal's arrivals and step times through a core of the same settings."""
    submitted: dict[StepId, int] = {}
    arrivals: list[Arrival] = []
    outcomes: dict[StepId, tuple[StepResult, int]] = {}
    for (now_ns, events), (_, actions) in zip(journal.events, journal.actions, strict=True):
        for event in events:
            if isinstance(event, RequestArrived):
                arrivals.append(Arrival(now_ns, event.request))
            elif isinstance(event, StepDone):
                result = event.result
                # The simulated device begins a step when the one before it is reported.
                outcomes[result.step_id] = (result, now_ns)
        for action in actions:
            if isinstance(action, SubmitStep):
                submitted[action.step.id] = now_ns
    delays: dict[StepId, tuple[StepResult, int]] = {}
    free_at_ns = 0
    for step_id, (result, reported_ns) in sorted(outcomes.items()):
        delays[step_id] = (result, reported_ns - max(submitted[step_id], free_at_ns))
        free_at_ns = reported_ns

    def make_core(clock: VirtualClock) -> EngineCore:
        return EngineCore(
            SchedulerSettings(max_num_seqs=8),
            KVManager(1, BLOCKS, 16),
            estimator,
            clock,
            fingerprint="the same for both runs",
            max_model_len=MAX_LEN,
            eos_ids=frozenset({0, 2}),
            draw_seed=lambda: 0,
        )

    steps: list[Step] = []
    simulator = Simulator(
        make_core, ReplayedOutcome(delays), on_step=lambda step, _: steps.append(step)
    )
    simulator.run(arrivals)
    return steps, simulator


def test_the_same_requests_and_step_times_give_the_same_schedule(default_gguf: Path) -> None:
    numbers = random.Random(5)
    journal = Journal()
    with LLM(
        str(default_gguf),
        max_model_len=MAX_LEN,
        max_num_seqs=8,
        kv_dtype="fp32",
        kv_memory=(BLOCKS + 1) * 16 * 46_080,
        journal=journal,
    ) as llm:
        # The core's estimator goes on learning; the replay must start from where it stood.
        calibrated = llm.copy_estimator()
        shared = [numbers.randrange(10, 49_000) for _ in range(48)]
        prompts = [
            shared[: numbers.choice([0, 16, 48])]
            + [numbers.randrange(10, 49_000) for _ in range(numbers.randint(1, 120))]
            for _ in range(14)
        ]
        params = [
            SamplingParams(temperature=0.0, max_tokens=numbers.randint(1, 40)) for _ in prompts
        ]
        for first in (0, 7):
            llm.generate(prompts[first : first + 7], params[first : first + 7])
        counters = llm.counters()
    real = [
        action.step
        for _, actions in journal.actions
        for action in actions
        if isinstance(action, SubmitStep)
    ]
    simulated, simulator = replay(journal, calibrated)
    assert len(real) > 40
    assert any(len(step.slices) > 1 for step in real)
    assert counters.prefix_hits > 0
    assert [step.slices for step in simulated] == [step.slices for step in real]
    assert [step.grown for step in simulated] == [step.grown for step in real]
    assert [[new.tables for new in step.new] for step in simulated] == [
        [new.tables for new in step.new] for step in real
    ]
    assert simulator.core.counters().preemptions == counters.preemptions
