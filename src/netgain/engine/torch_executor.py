"""Runs steps in this process, on one thread, with torch."""

import logging
import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np
import torch

from netgain.engine.clock import Clock
from netgain.engine.device_state import DeviceState
from netgain.engine.events import Event, StepDone
from netgain.engine.messages import RequestId
from netgain.engine.sampler import sample
from netgain.engine.step import Slice, Step, StepId, StepResult
from netgain.kv.geometry import KVGroup
from netgain.models.causal_lm import CausalLM

_log: Final = logging.getLogger(__name__)


class TorchExecutor:
    """An `Executor` over one model and its KV records.

    `post` is called from the executor's thread with each `StepDone`.
    """

    def __init__(
        self,
        model: CausalLM,
        groups: Sequence[KVGroup],
        pool_blocks: int,
        max_model_len: int,
        clock: Clock,
        post: Callable[[Event], None],
    ) -> None:
        self._model = model
        self._clock = clock
        self._post = post
        self._records = [_allocate(group, pool_blocks + 1) for group in groups]
        self._state = DeviceState(len(groups), groups[0].block_tokens, max_model_len)
        self._steps: queue.SimpleQueue[Step | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="executor", daemon=True)
        self._thread.start()

    def submit(self, step: Step) -> None:
        """Queues the step behind those submitted before."""
        self._steps.put(step)

    def close(self) -> None:
        """Ends the thread after the step it is in; later ones are dropped."""
        while True:
            try:
                self._steps.get_nowait()
            except queue.Empty:
                break
        self._steps.put(None)
        self._thread.join()

    def run(self, step: Step) -> StepResult:
        """Runs one step on the calling thread; for warm-up, before any step is submitted."""
        started_ns = self._clock.now_ns()
        self._state.apply(step)
        tokens = self._forward(step.slices)
        return StepResult(step.id, tuple(tokens), started_ns, self._clock.now_ns())

    def release(self, request_ids: Iterable[RequestId]) -> None:
        """Forgets requests given to `run`."""
        self._state.apply(Step(StepId(0), (), released=tuple(request_ids)))

    def _forward(self, slices: Sequence[Slice]) -> list[int]:
        inputs = self._state.inputs(slices)
        logits_NV = self._model.forward(inputs, self._records)
        tokens = sample(logits_NV, self._state.sampling_rows(slices))
        self._state.append(slices, tokens)
        return tokens

    def _run(self) -> None:
        while (step := self._steps.get()) is not None:
            started_ns = self._clock.now_ns()
            try:
                result = self.run(step)
            except Exception as error:
                # The step's requests end with the reason; the engine goes on with others.
                _log.exception("step %d failed", step.id)
                result = StepResult(step.id, (), started_ns, self._clock.now_ns(), repr(error))
            self._post(StepDone(result))


def _allocate(group: KVGroup, blocks: int) -> torch.Tensor:
    """Zeroed records `[B, L, 2, K, S, D]`; pages become resident only when written."""
    # numpy asks the system for zero pages; torch would write the zeros itself.
    return torch.from_numpy(np.zeros((blocks, *group.record_shape), np.float32))
