"""Warm-up that measures: a few steps of different shapes, to fit the step-time model to."""

import time
from typing import Final

from netgain.config import SchedulerSettings
from netgain.cost.step_time import StepLoad
from netgain.engine.local_executor import LocalExecutor
from netgain.engine.messages import RequestId
from netgain.engine.sampling_params import SamplingParams
from netgain.engine.step import NewRequest, Slice, Step, StepId
from netgain.kv.block_pool import BlockId

_GREEDY: Final = SamplingParams(temperature=0.0)
_SHAPES: Final = (
    # (sequences, tokens before, tokens of the step), the most telling first
    (1, 31, 1),
    (1, 31, 1),
    (1, 0, 16),
    (4, 31, 1),
    (1, 0, 64),
    (1, 511, 1),
    (8, 255, 1),
    (1, 448, 64),
    (1, 0, 128),
)
"""The first one pays for first-use costs of the library and is not counted."""
_FEWEST: Final = 5
"""Shapes measured whatever they take: fewer cannot tell the model's terms apart."""


def measure_steps(
    executor: LocalExecutor,
    settings: SchedulerSettings,
    *,
    groups: int,
    pool_blocks: int,
    block_tokens: int,
    max_model_len: int,
    budget_s: float,
) -> list[tuple[StepLoad, float]]:
    """Loads and seconds of steps run now, as many shapes as fit the pool and `budget_s`.

    The best of two runs where a step is short: on a shared machine noise only ever adds.
    """
    observations: list[tuple[StepLoad, float]] = []
    began = time.perf_counter()
    for index, (sequences, before, count) in enumerate(_SHAPES):
        context = before + count
        blocks = -(-context // block_tokens)
        if (
            context >= max_model_len
            or sequences * blocks > pool_blocks
            or sequences > settings.max_num_seqs
            or sequences * count > settings.max_num_batched_tokens
        ):
            continue
        step = _step(index, sequences, before, count, groups, blocks)
        seconds = _timed(executor, step)
        if seconds < budget_s / 20:
            seconds = min(seconds, _timed(executor, _again(step)))
        if index:
            observations.append((StepLoad.of([(before, count)] * sequences), seconds))
        _forget(executor, step)
        if index >= _FEWEST and time.perf_counter() - began > budget_s:
            break
    return observations


def _step(index: int, sequences: int, before: int, count: int, groups: int, blocks: int) -> Step:
    names = [RequestId(f"calibration-{index}-{i}") for i in range(sequences)]
    new = tuple(
        NewRequest(
            name,
            (0,) * (before + count),
            before + count,
            _GREEDY,
            0,
            (tuple(BlockId(1 + i * blocks + block) for block in range(blocks)),) * groups,
        )
        for i, name in enumerate(names)
    )
    slices = tuple(Slice(name, before, count, sample=True) for name in names)
    return Step(StepId(0), slices, new)


def _again(step: Step) -> Step:
    return Step(step.id, step.slices, step.new, (), tuple(new.request_id for new in step.new))


def _timed(executor: LocalExecutor, step: Step) -> float:
    result = executor.run(step)
    return (result.ended_ns - result.started_ns) / 1e9


def _forget(executor: LocalExecutor, step: Step) -> None:
    executor.release(new.request_id for new in step.new)
