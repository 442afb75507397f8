"""How whoever talks to clients talks to an engine, wherever that engine runs."""

import asyncio
import enum
from collections import deque
from dataclasses import dataclass
from typing import Protocol

from netgain.engine.messages import (
    EngineInfo,
    EngineRequest,
    FinishReason,
    LoadPart,
    RequestId,
    RequestOutput,
)
from netgain.errors import EngineDeadError
from netgain.ledger.counters import EngineCounters


class EngineState(enum.StrEnum):
    """What can be asked of an engine now."""

    STARTING = "starting"
    READY = "ready"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class StepArrival:
    """One step's message as it reached this process; all times in this process's clock.

    `sent_ns`: when the engine sent the message.
    `bytes_per_output`: the message's size shared out equally over its requests.
    `engine_clock_ns`: what the engine's clock is ahead of this process's.
    """

    received_ns: int
    sent_ns: int
    bytes_per_output: int
    engine_clock_ns: int


@dataclass(frozen=True, slots=True)
class OutputEvent:
    """What one step brought one request, and when."""

    output: RequestOutput
    arrival: StepArrival


class OutputStream:
    """One request's events in order, from submission to the last output.

    `submitted_ns` and `submitted_bytes` describe the request's own crossing. One reader only.
    """

    __slots__ = ("_error", "_events", "_waiter", "submitted_bytes", "submitted_ns")

    def __init__(self, submitted_ns: int, submitted_bytes: int) -> None:
        self.submitted_ns = submitted_ns
        self.submitted_bytes = submitted_bytes
        self._events: deque[OutputEvent] = deque()
        self._error: EngineDeadError | None = None
        self._waiter: asyncio.Future[None] | None = None

    def push(self, event: OutputEvent) -> None:
        """Hands the reader one more event."""
        self._events.append(event)
        self._wake()

    def fail(self, error: EngineDeadError) -> None:
        """No event will follow; the reader gets `error` at once."""
        self._error = error
        self._wake()

    async def next(self) -> OutputEvent:
        """The next event. Raises `EngineDeadError` once the engine is gone."""
        while not self._events:
            if self._error is not None:
                raise self._error
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return self._events.popleft()

    def ready(self) -> OutputEvent | None:
        """An event that is already here, without waiting."""
        return self._events.popleft() if self._events else None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class EngineClient(Protocol):
    """One engine as its frontend sees it."""

    @property
    def state(self) -> EngineState:
        """Whether it loads, serves, or is gone."""
        ...

    @property
    def info(self) -> EngineInfo | None:
        """What the engine is; None until it was ready once."""
        ...

    @property
    def loaded(self) -> tuple[LoadPart, ...]:
        """The parts of loading that ended so far."""
        ...

    @property
    def counters(self) -> EngineCounters:
        """The latest snapshot of this engine's counters; totals restart with the engine."""
        ...

    def submit(self, request: EngineRequest) -> OutputStream:
        """Sends a request. Raises `EngineDeadError` unless the engine is ready."""
        ...

    def abort(self, id_: RequestId, reason: FinishReason) -> None:
        """Asks for a request's end; its last output still arrives on its stream."""
        ...

    async def reset_prefix_cache(self) -> int:
        """Forgets every cached block nobody holds; returns how many. Raises `EngineDeadError`."""
        ...
