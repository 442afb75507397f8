"""What a simulated step returns and how long it takes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from netgain.cost.step_time import StepLoad, StepTimeModel
from netgain.engine.clock import NS_PER_S
from netgain.engine.step import Step, StepId, StepResult

_NEVER_A_STOP: Final = 0


class StepOutcome(Protocol):
    """Decides a simulated step's result and when the core hears of it."""

    def run(self, step: Step, start_ns: int) -> tuple[StepResult, int]:
        """The result of a step begun at `start_ns`, and the time it is reported."""
        ...


@dataclass(frozen=True, slots=True)
class ModelledOutcome:
    """Steps take what a step-time model says; every sampled token is the same.

    Answers therefore end by `max_tokens`: give requests the lengths that the traffic has.
    """

    model: StepTimeModel
    token: int = _NEVER_A_STOP

    def run(self, step: Step, start_ns: int) -> tuple[StepResult, int]:
        """A modelled step."""
        load = StepLoad.of((piece.start, piece.count) for piece in step.slices)
        end_ns = start_ns + max(1, round(self.model.step_s(load) * NS_PER_S))
        samples = sum(piece.sample for piece in step.slices)
        return StepResult(step.id, (self.token,) * samples, start_ns, end_ns), end_ns


@dataclass(frozen=True, slots=True)
class ReplayedOutcome:
    """Steps return what was recorded: `recorded[step id]` is (result, report delay).

    The delay is from the step's submission to the moment the core heard of its end.
    """

    recorded: Mapping[StepId, tuple[StepResult, int]]

    def run(self, step: Step, start_ns: int) -> tuple[StepResult, int]:
        """The recorded result, reported as late as it was."""
        result, delay_ns = self.recorded[step.id]
        return result, start_ns + delay_ns
