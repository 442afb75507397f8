"""What a step takes beside the kernels: the step period less the time inside the runner."""

import statistics
import time
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from netgain import LLM
from netgain.ops.backend import StepRunner
from netgain.ops.draws import Draws
from netgain.ops.scores import StepYield, Wanted
from netgain.ops.step_inputs import StepInputs


class StepClock:
    """A `StepRunner` around another one that notes when each step began and ended."""

    def __init__(self, runner: StepRunner) -> None:
        self._runner = runner
        self.steps: list[tuple[float, float]] = []

    @property
    def records(self) -> Sequence[NDArray[np.uint8]]:
        """See `StepRunner.records`."""
        return self._runner.records

    def run(self, inputs: StepInputs, draws: Draws) -> list[int]:
        """See `StepRunner.run`."""
        began = time.perf_counter()
        tokens = self._runner.run(inputs, draws)
        self.steps.append((began, time.perf_counter()))
        return tokens

    def run_scored(self, inputs: StepInputs, draws: Draws, wanted: Wanted) -> StepYield:
        """See `StepRunner.run_scored`."""
        began = time.perf_counter()
        made = self._runner.run_scored(inputs, draws, wanted)
        self.steps.append((began, time.perf_counter()))
        return made

    def logits(self, inputs: StepInputs) -> NDArray[np.float32]:
        """See `StepRunner.logits`."""
        return self._runner.logits(inputs)


def watch(llm: LLM) -> StepClock:
    """A clock on this engine's steps from now on."""
    executor = llm._engine.executor
    clock = StepClock(executor._runner)
    executor._runner = clock
    return clock


def host_s(steps: Sequence[tuple[float, float]]) -> float:
    """Median seconds from the end of one step's kernels to the begin of the next one's.

    Core loop, scheduling, KV bookkeeping, step arrays, detokenising, and both hand-overs between
    threads are in it. Of `steps`, the first is a prefill, whose end is another matter.
    """
    return statistics.median(after[0] - before[1] for before, after in pairwise(steps[1:]))
