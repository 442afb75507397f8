"""How long a step of some work takes, whoever says so."""

from dataclasses import dataclass
from typing import Protocol

from netgain.cost.step_time import StepLoad, StepTimeModel
from netgain.cost.step_work import Slices, StepWork, prefill


class StepCosts(Protocol):
    """Seconds of a step: of a `RooflineModel` (assumed) or of `CalibratedSteps` (measured)."""

    def seconds(self, work: StepWork) -> float:
        """Seconds a step of this work takes; 0 for an empty one."""
        ...


@dataclass(frozen=True, slots=True)
class CalibratedSteps:
    """The linear model that was fitted to an engine's own steps."""

    model: StepTimeModel

    def seconds(self, work: StepWork) -> float:
        """Seconds a step of this work takes; 0 for an empty one."""
        return self.model.step_s(load_of(work))


def load_of(work: StepWork) -> StepLoad:
    """The load of a step, as the linear model counts it."""
    load = StepLoad()
    for part in work.slices:
        one = StepLoad().plus(part.cached, part.new)
        load = StepLoad(
            load.slices + part.sequences,
            load.tokens + part.sequences * one.tokens,
            load.context_tokens + part.sequences * one.context_tokens,
            load.pairs + part.sequences * one.pairs,
        )
    return load


def mixed(batch: int, context_tokens: int, start: int, chunk_tokens: int) -> StepWork:
    """A step of `batch` decodes (0: none) and one chunk of a prompt, `start` tokens into it."""
    decodes = (Slices(batch, 1, context_tokens),) if batch else ()
    return StepWork((*decodes, Slices(1, chunk_tokens, start)))


def prefill_s(costs: StepCosts, start: int, tokens: int, chunk_tokens: int = 0) -> float:
    """Seconds to prefill `tokens` after `start`, alone, in chunks (0: in one step)."""
    chunk = chunk_tokens or max(1, tokens)
    seconds, done = 0.0, 0
    while done < tokens:
        piece = min(chunk, tokens - done)
        seconds += costs.seconds(prefill(piece, start + done))
        done += piece
    return seconds
