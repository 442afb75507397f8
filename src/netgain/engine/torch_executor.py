"""Runs steps in this process, on one thread, with torch."""

import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
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

    `device_thread` has one worker, and the model was loaded on it: OpenMP keeps a pool of threads
    per thread that ever ran a parallel region, and with more pooled threads than cores they stop
    spinning between regions, which costs a third of a decode step. `post` is called on it with
    each `StepDone`.
    """

    def __init__(
        self,
        model: CausalLM,
        groups: Sequence[KVGroup],
        pool_blocks: int,
        max_model_len: int,
        clock: Clock,
        post: Callable[[Event], None],
        device_thread: ThreadPoolExecutor,
    ) -> None:
        self._model = model
        self._clock = clock
        self._post = post
        self._records = [_allocate(group, pool_blocks + 1) for group in groups]
        self._state = DeviceState(len(groups), groups[0].block_tokens, max_model_len)
        self._device_thread = device_thread

    def submit(self, step: Step) -> None:
        """Queues the step behind those submitted before."""
        self._device_thread.submit(self._run, step)

    def close(self) -> None:
        """Ends the thread after the step it is in; later ones are dropped."""
        self._device_thread.shutdown(cancel_futures=True)

    def run(self, step: Step) -> StepResult:
        """Runs one step and returns; for warm-up, on the device thread."""
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

    def _run(self, step: Step) -> None:
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
