"""Traffic and engines for simulation tests."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from netgain.config import SchedulerSettings
from netgain.cost.step_time import StepLoad, StepTimeEstimator, StepTimeModel
from netgain.engine.core import EngineCore
from netgain.engine.messages import EngineRequest, RequestId
from netgain.engine.sampling_params import SamplingParams
from netgain.engine.step import Step
from netgain.kv.manager import KVManager
from netgain.sim.clock import VirtualClock
from netgain.sim.simulator import Arrival, SimulatedRequest, Simulator
from netgain.sim.step_outcome import ModelledOutcome

STEP_TIME = StepTimeModel(base_s=0.012, slice_s=2e-4, token_s=3e-4, context_s=2e-7, pair_s=1e-9)
_SHAPES = [(n, start, count) for n in (1, 4) for start in (0, 30, 400) for count in (1, 16, 90)]


def make_simulator(
    *,
    pool_blocks: int = 4000,
    max_num_seqs: int = 64,
    max_outstanding_steps: int = 2,
    step_time: StepTimeModel = STEP_TIME,
    on_step: Callable[[Step, int], None] | None = None,
) -> Simulator:
    """One engine whose estimator knows the step times it will see."""
    loads = [StepLoad.of([(start, count)] * n) for n, start, count in _SHAPES]

    def make_core(clock: VirtualClock) -> EngineCore:
        return EngineCore(
            SchedulerSettings(
                max_num_seqs=max_num_seqs, max_outstanding_steps=max_outstanding_steps
            ),
            KVManager(1, pool_blocks, 16),
            StepTimeEstimator((load, step_time.step_s(load)) for load in loads),
            clock,
            fingerprint="simulated",
            max_model_len=2048,
            eos_ids=frozenset({1}),
            draw_seed=lambda: 1,
        )

    return Simulator(make_core, ModelledOutcome(step_time), on_step)


@dataclass(frozen=True)
class Traffic:
    """Chats: every prompt begins with one of a few system prompts."""

    requests: int
    rate_per_s: float
    system_prompts: int = 8
    system_tokens: int = 64
    mean_prompt_tokens: int = 60
    mean_answer_tokens: int = 16
    timeout_ns: int | None = None


def chat_arrivals(traffic: Traffic, seed: int) -> list[Arrival]:
    """Poisson arrivals; lengths exponential, bounded."""
    rng = random.Random(seed)
    systems = [
        [rng.randrange(2, 50_000) for _ in range(traffic.system_tokens)]
        for _ in range(traffic.system_prompts)
    ]
    at_s = 0.0
    arrivals = []
    for number in range(traffic.requests):
        at_s += rng.expovariate(traffic.rate_per_s)
        own = 1 + min(400, int(rng.expovariate(1 / traffic.mean_prompt_tokens)))
        answer = 1 + min(200, int(rng.expovariate(1 / traffic.mean_answer_tokens)))
        prompt = rng.choice(systems) + [rng.randrange(2, 50_000) for _ in range(own)]
        request = EngineRequest(
            id=RequestId(f"s{number}"),
            prompt_ids=tuple(prompt),
            sampling=SamplingParams(temperature=0.0, max_tokens=answer),
            timeout_ns=traffic.timeout_ns,
        )
        arrivals.append(Arrival(round(at_s * 1e9), request))
    return arrivals


def mean_ttft_s(requests: Sequence[SimulatedRequest]) -> float:
    waits = [r.first_token_ns - r.arrived_ns for r in requests if r.first_token_ns is not None]
    return sum(waits) / len(waits) / 1e9
