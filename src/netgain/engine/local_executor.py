"""Runs steps in this process, on one thread."""

import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from netgain.engine.clock import Clock
from netgain.engine.device_state import DeviceState, StepArrays
from netgain.engine.events import Event, StepDone
from netgain.engine.messages import RequestId
from netgain.engine.step import Step, StepId, StepResult
from netgain.engine.token_logprobs import with_logprobs
from netgain.ops.backend import StepRunner

_log: Final = logging.getLogger(__name__)


class LocalExecutor:
    """An `Executor` over one backend's runner.

    `device_thread` has one worker, and the model was loaded on it: a backend's thread pool may
    belong to the thread that first used it (docs/decisions/threads.md). `post` is called on it
    with each `StepDone`.
    """

    def __init__(
        self,
        runner: StepRunner,
        state: DeviceState,
        clock: Clock,
        post: Callable[[Event], None],
        device_thread: ThreadPoolExecutor,
    ) -> None:
        self._runner = runner
        self._state = state
        self._clock = clock
        self._post = post
        self._device_thread = device_thread

    def submit(self, step: Step) -> None:
        """Queues the step behind those submitted before."""
        self._device_thread.submit(self._run, step)

    def close(self) -> None:
        """Ends the thread after the step it is in; later ones are dropped."""
        self._device_thread.shutdown(cancel_futures=True)

    def run(self, step: Step) -> StepResult:
        """Runs one step and returns; for warm-up, on the device thread."""
        result, arrays = self._compute(step)
        self._state.append(arrays, result.tokens)
        return result

    def release(self, request_ids: Iterable[RequestId]) -> None:
        """Forgets requests given to `run`."""
        self._state.apply(Step(StepId(0), (), released=tuple(request_ids)))

    def _compute(self, step: Step) -> tuple[StepResult, StepArrays]:
        """The step's result, and the arrays that its tokens are still to be appended by."""
        started_ns = self._clock.now_ns()
        self._state.apply(step)
        arrays = self._state.arrays(step.slices)
        if arrays.wanted is None:
            tokens = self._runner.run(arrays.inputs, arrays.draws)
            return StepResult(step.id, tuple(tokens), started_ns, self._clock.now_ns()), arrays
        made = self._runner.run_scored(arrays.inputs, arrays.draws, arrays.wanted)
        embeddings = self._state.pool(arrays, made.hidden_HE)
        result = StepResult(step.id, tuple(made.tokens), started_ns, self._clock.now_ns())
        scored = with_logprobs(result, arrays, made.scores)
        return replace(scored, embeddings=tuple(embeddings)), arrays

    def _run(self, step: Step) -> None:
        started_ns = self._clock.now_ns()
        arrays = None
        try:
            result, arrays = self._compute(step)
        except Exception as error:
            # The step's requests end with the reason; the engine goes on with others.
            _log.exception("step %d failed", step.id)
            result = StepResult(step.id, (), started_ns, self._clock.now_ns(), repr(error))
        self._post(StepDone(result))
        if arrays is not None:
            # While whoever hears of the step wakes up; the next one is computed on this thread too.
            self._state.append(arrays, result.tokens)
