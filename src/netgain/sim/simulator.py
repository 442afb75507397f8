"""Runs an `EngineCore` in virtual time: a heap of events in place of sockets and threads."""

import heapq
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from netgain.engine.core import EngineCore
from netgain.engine.events import (
    Action,
    EmitOutputs,
    Event,
    PublishKVEvents,
    RequestArrived,
    SetTimer,
    StepDone,
    SubmitStep,
    TimerFired,
)
from netgain.engine.messages import EngineRequest, FinishReason, RequestId
from netgain.engine.step import Step
from netgain.errors import InvalidRequestError
from netgain.ledger.record import LedgerRecord
from netgain.sim.clock import VirtualClock
from netgain.sim.step_outcome import StepOutcome


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request and when it comes."""

    at_ns: int
    request: EngineRequest

    def __post_init__(self) -> None:
        """Raises `InvalidRequestError` for a time that is not a whole number of nanoseconds."""
        if not isinstance(self.at_ns, int) or self.at_ns < 0:
            raise InvalidRequestError(
                f"a request arrives at {self.at_ns!r}: give nanoseconds, a whole number from 0 up"
            )


@dataclass(slots=True)
class SimulatedRequest:
    """What a simulation knows of one request; times are virtual."""

    arrived_ns: int
    token_ids: list[int] = field(default_factory=list)
    first_token_ns: int | None = None
    ended_ns: int | None = None
    finish_reason: FinishReason | None = None
    cached_tokens: int = 0
    ledger: LedgerRecord | None = None


class SimulatedExecutor:
    """One device in virtual time: runs steps one after another, in the order submitted."""

    def __init__(
        self, clock: VirtualClock, outcome: StepOutcome, post: Callable[[int, Event], None]
    ) -> None:
        self._clock = clock
        self._outcome = outcome
        self._post = post
        self._free_at_ns = 0

    def submit(self, step: Step) -> None:
        """Begins the step when those before it are done."""
        start_ns = max(self._clock.now_ns(), self._free_at_ns)
        result, reported_ns = self._outcome.run(step, start_ns)
        self._free_at_ns = reported_ns
        self._post(reported_ns, StepDone(result))

    def close(self) -> None:
        """Nothing to end."""


class Simulator:
    """One engine under a virtual clock.

    `make_core` builds the core on the simulation's clock; `on_step` sees every step submitted.
    """

    def __init__(
        self,
        make_core: Callable[[VirtualClock], EngineCore],
        outcome: StepOutcome,
        on_step: Callable[[Step, int], None] | None = None,
    ) -> None:
        self.clock = VirtualClock()
        self.core = make_core(self.clock)
        self._executor = SimulatedExecutor(self.clock, outcome, self._post)
        self._on_step = on_step
        self._heap: list[tuple[int, int, Event]] = []
        self._order = itertools.count()
        self._requests: dict[RequestId, SimulatedRequest] = {}

    def run(self, arrivals: Iterable[Arrival]) -> dict[RequestId, SimulatedRequest]:
        """Serves all arrivals to the end; what became of each.

        Raises `InvalidRequestError` for an id that comes twice.
        """
        for arrival in arrivals:
            if arrival.request.id in self._requests:
                raise InvalidRequestError(f"two requests have the id {arrival.request.id}")
            self._requests[arrival.request.id] = SimulatedRequest(arrival.at_ns)
            self._post(arrival.at_ns, RequestArrived(arrival.request))
        while self._heap:
            now_ns = self._heap[0][0]
            self.clock.advance_to(now_ns)
            events: list[Event] = []
            while self._heap and self._heap[0][0] == now_ns:
                events.append(heapq.heappop(self._heap)[2])
            for action in self.core.on_events(events, now_ns):
                self._carry_out(action, now_ns)
        return self._requests

    def _post(self, at_ns: int, event: Event) -> None:
        heapq.heappush(self._heap, (at_ns, next(self._order), event))

    def _carry_out(self, action: Action, now_ns: int) -> None:
        match action:
            case SubmitStep(step):
                if self._on_step is not None:
                    self._on_step(step, now_ns)
                self._executor.submit(step)
            case EmitOutputs():
                self._deliver(action, now_ns)
            case SetTimer(at_ns):
                self._post(at_ns, TimerFired())
            case PublishKVEvents():
                pass
            case _:
                raise NotImplementedError(f"no tier or replica answers {type(action).__name__}")

    def _deliver(self, emitted: EmitOutputs, now_ns: int) -> None:
        for output in emitted.outputs:
            request = self._requests[output.id]
            if output.token_ids and request.first_token_ns is None:
                request.first_token_ns = now_ns
            request.token_ids.extend(output.token_ids)
            if output.finish_reason is not None:
                request.ended_ns = now_ns
                request.finish_reason = output.finish_reason
                request.cached_tokens = output.cached_tokens
                request.ledger = output.ledger
