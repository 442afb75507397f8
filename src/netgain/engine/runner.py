"""Carries out a core's actions with a real executor; the waiting is its driver's."""

import queue
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from netgain.engine.clock import NS_PER_S, Clock
from netgain.engine.core import EngineCore
from netgain.engine.events import (
    Action,
    EmitOutputs,
    Event,
    PublishKVEvents,
    SetTimer,
    SubmitStep,
    TimerFired,
)
from netgain.engine.executor import Executor
from netgain.kv.events import KVEvent


@dataclass(slots=True)
class Journal:
    """Everything that went into and came out of a core, with its time."""

    events: list[tuple[int, tuple[Event, ...]]] = field(default_factory=list)
    actions: list[tuple[int, tuple[Action, ...]]] = field(default_factory=list)


class EventInbox:
    """Events from other threads, in order; `wake` is called after each one."""

    def __init__(self, wake: Callable[[], None] | None = None) -> None:
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._wake = wake

    def post(self, event: Event) -> None:
        """Adds an event; any thread may."""
        self._events.put(event)
        if self._wake is not None:
            self._wake()

    def take(self, timeout_s: float | None = 0.0) -> list[Event]:
        """All events there are, waiting up to `timeout_s` (None: for ever) for the first."""
        events: list[Event] = []
        try:
            if timeout_s is None or timeout_s > 0:
                events.append(self._events.get(timeout=timeout_s))
            while True:
                events.append(self._events.get_nowait())
        except queue.Empty:
            return events


class EngineRunner:
    """Turns events into actions and carries the actions out."""

    def __init__(
        self,
        core: EngineCore,
        executor: Executor,
        clock: Clock,
        on_outputs: Callable[[EmitOutputs], None],
        *,
        on_kv_events: Callable[[Sequence[KVEvent]], None] | None = None,
        journal: Journal | None = None,
    ) -> None:
        self.core = core
        self._executor = executor
        self._clock = clock
        self._on_outputs = on_outputs
        self._on_kv_events = on_kv_events
        self._journal = journal
        self._timer_ns: int | None = None

    def seconds_to_timer(self) -> float | None:
        """How long the driver may wait before calling `turn` without events; None: for ever."""
        if self._timer_ns is None:
            return None
        return max(0.0, (self._timer_ns - self._clock.now_ns()) / NS_PER_S)

    def turn(self, events: list[Event]) -> None:
        """Hands events, and a timer that is due, to the core and does what it says."""
        now_ns = self._clock.now_ns()
        if self._timer_ns is not None and self._timer_ns <= now_ns:
            self._timer_ns = None
            events.append(TimerFired())
        if not events:
            return
        actions = self.core.on_events(events, now_ns)
        if self._journal is not None:
            self._journal.events.append((now_ns, tuple(events)))
            self._journal.actions.append((now_ns, tuple(actions)))
        for action in actions:
            match action:
                case SubmitStep(step):
                    self._executor.submit(step)
                case EmitOutputs():
                    self._on_outputs(action)
                case SetTimer(at_ns):
                    self._timer_ns = at_ns
                case PublishKVEvents(kv_events):
                    if self._on_kv_events is not None:
                        self._on_kv_events(kv_events)
                case _:
                    raise NotImplementedError(f"no tier answers {type(action).__name__}")
