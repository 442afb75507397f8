"""Those who ask: each holds one conversation at a time, turn by turn, at the intended times."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from netgain.lab.alarm import Alarm
from netgain.lab.client_connection import ClientConnection
from netgain.lab.connections import ConnectError
from netgain.lab.load_messages import Given
from netgain.lab.request_body import Dialogue
from netgain.lab.target import Target
from netgain.lab.transport import Asked, Intent, Reply, Transport

_AFTER_NO_CONNECTION_S: Final = 0.1
_READING_S: Final = 0.0005
_LATER_S: Final = 0.001
_MOST_UNREAD: Final = 64


class Clients:
    """Holds conversations with one target.

    `on_done` gets every request that was due, whatever came of it. Nothing is begun whose intended
    time is `duration_s` or later. A turn that fails ends its conversation.
    """

    def __init__(
        self,
        target: Target,
        alarm: Alarm,
        zero_s: float,
        duration_s: float | None,
        on_done: Callable[[Asked], None],
    ) -> None:
        self._target = target
        self._alarm = alarm
        self._zero_s = zero_s
        self._duration_s = float("inf") if duration_s is None else duration_s
        self._on_done = on_done
        self._transport = Transport(target, zero_s)
        self._loop = asyncio.get_running_loop()
        self._unread: deque[Reply] = deque()
        self._all_read = asyncio.Event()
        self._all_read.set()
        self.sent = 0
        self.in_flight = 0

    async def begin_at(self, given: Given, on_begin: Callable[[], None]) -> None:
        """Holds a conversation that begins at its own time; `on_begin` when that has come."""
        start_s = given.start_s or 0.0
        dialogue = Dialogue(self._target, given.conversation)
        await self._hold(given, dialogue, start_s, on_begin)

    async def one_after_another(
        self, take: Callable[[], Awaitable[Given | None]], first_s: float
    ) -> None:
        """Holds conversations, each when the one before ended, until `take` has no more."""
        free_s = first_s
        while free_s < self._duration_s:
            given = await take()
            if given is None:
                return
            # Having had to wait for a conversation is the generator's own lag.
            free_s = await self._hold(given, Dialogue(self._target, given.conversation), free_s)

    async def settle(self) -> None:
        """Waits until every reply was read."""
        await self._all_read.wait()

    def close(self) -> None:
        """Closes idle connections."""
        self._transport.close()

    async def _hold(
        self,
        given: Given,
        dialogue: Dialogue,
        start_s: float,
        on_begin: Callable[[], None] | None = None,
    ) -> float:
        """Returns when the client is free again, in seconds since zero."""
        turns = given.conversation.turns
        intended_s = start_s
        for number, turn in enumerate(turns):
            if number:
                intended_s += turn.think_s
            if intended_s >= self._duration_s:
                return intended_s
            body = dialogue.body(number)
            intent = Intent(
                index=given.first_index + number,
                request_class=given.conversation.request_class,
                conversation=given.number,
                turn=number,
                intended_s=intended_s,
                prompt_tokens=dialogue.prompt_tokens(number),
                max_tokens=turn.max_tokens,
            )
            reply = await self._ask(intent, body, on_begin if number == 0 else None)
            intended_s = reply.end_s - self._zero_s
            if number == len(turns) - 1:
                self._read_soon(reply)
                break
            asked = self._read(reply)
            if asked.record.failure is not None:
                break
            usage = asked.record.usage
            dialogue.answered(number, asked.text, usage.completion_tokens if usage else None)
        if reply.cancelled:
            raise asyncio.CancelledError
        if reply.failure is not None:
            intended_s += _AFTER_NO_CONNECTION_S
        return intended_s

    async def _ask(self, intent: Intent, body: bytes, on_begin: Callable[[], None] | None) -> Reply:
        """The request at its time, its connection taken a little earlier."""
        due_s = self._zero_s + intent.intended_s
        connection: ClientConnection | None = None
        try:
            await self._alarm.until(due_s - self._transport.lead_s)
            connection = await self._transport.connect()
            await self._alarm.until(due_s)
        except ConnectError as error:
            await self._alarm.until(due_s)
            return self._transport.unconnected(intent, error)
        except asyncio.CancelledError:
            if time.monotonic() < due_s:
                raise
            return self._transport.unsent(intent)
        finally:
            if on_begin is not None:
                on_begin()
        self.sent += 1
        self.in_flight += 1
        try:
            return await self._transport.ask(intent, body, connection)
        finally:
            self.in_flight -= 1

    def _read(self, reply: Reply) -> Asked:
        asked = self._transport.read(reply)
        self._on_done(asked)
        return asked

    def _read_soon(self, reply: Reply) -> None:
        """When no request is due: reading must make none late, and answers may end in bunches."""
        if not self._unread:
            self._all_read.clear()
            self._loop.call_soon(self._read_one)
        self._unread.append(reply)

    def _read_one(self) -> None:
        if not self._alarm.free_for(_READING_S) and len(self._unread) < _MOST_UNREAD:
            self._loop.call_later(_LATER_S, self._read_one)
            return
        try:
            self._read(self._unread[0])
        finally:
            self._unread.popleft()
            if self._unread:
                self._loop.call_soon(self._read_one)  # by then requests have had their turn
            else:
                self._all_read.set()
