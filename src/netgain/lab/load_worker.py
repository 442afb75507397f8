"""A process that makes load: `python -m netgain.lab.load_worker FD`, started by the generator.

FD is a socket to the process that started it; when that closes, this one ends.
"""

import asyncio
import contextlib
import gc
import resource
import signal
import socket
import sys
import time
from typing import Final, cast

import msgspec
import uvloop

from netgain.lab.alarm import Alarm
from netgain.lab.clients import Clients
from netgain.lab.load_messages import (
    Bye,
    Done,
    Enough,
    FromWorker,
    Given,
    Go,
    Pulse,
    Setup,
    Stop,
    ToWorker,
    Wants,
)
from netgain.lab.transport import Asked

_PULSE_S: Final = 0.2
_decode: Final = msgspec.json.Decoder(ToWorker).decode
_encode: Final = msgspec.json.Encoder().encode


class Worker(asyncio.Protocol):
    """Does what the leading process says."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._loop = asyncio.get_running_loop()
        self._setup: Setup | None = None
        self._given: asyncio.Queue[Given | None] = asyncio.Queue()
        self._early: list[Given] = []
        self._enough = False
        self._clients: Clients | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._stopped = False
        self._went: asyncio.Future[float] = self._loop.create_future()
        self.closed: asyncio.Future[None] = self._loop.create_future()

    async def run(self) -> None:
        """From the run's zero to its end."""
        zero_s = await self._went
        setup = self._setup
        assert setup is not None
        # What exists now stays: collecting it again and again would only stop the run.
        gc.collect()
        gc.freeze()
        gc.disable()
        alarm = Alarm(self._loop)
        clients = Clients(setup.target, alarm, zero_s, setup.duration_s, self._done)
        self._clients = clients
        pulse = self._loop.create_task(self._pulse(clients))
        began_cpu_s = time.process_time()
        if setup.clients is None:
            early, self._early = self._early, []
            for given in early:
                self._begin(given)
        else:
            for number in range(setup.clients):
                first_s = setup.stagger_first_s + number * setup.stagger_s
                self._start(clients.one_after_another(self._take, first_s))
        until_s = None
        if setup.duration_s is not None:
            until_s = zero_s + setup.duration_s + setup.drain_s
        await self._until_all_ended(until_s)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await clients.settle()
        pulse.cancel()
        clients.close()
        alarm.close()
        self._say(Bye(time.process_time() - began_cpu_s))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The leading process is there."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone, or has heard enough."""
        del exc
        if not self.closed.done():
            self.closed.set_result(None)

    def data_received(self, data: bytes) -> None:
        """It said something, or the beginning of it."""
        self._buffer += data
        *lines, rest = bytes(self._buffer).split(b"\n")
        self._buffer = bytearray(rest)
        for line in lines:
            self._heard(_decode(line))

    def _heard(self, message: ToWorker) -> None:
        match message:
            case Setup():
                self._setup = message
                self._say(Wants(message.ahead))
            case Given():
                self._take_in(message)
            case Enough():
                self._enough = True
                clients = self._setup.clients if self._setup else None
                for _ in range(clients or 0):
                    self._given.put_nowait(None)
                self._changed.set()
            case Go(zero_s):
                self._went.set_result(zero_s)
            case Stop():
                self._stopped = True
                self._changed.set()

    def _take_in(self, given: Given) -> None:
        assert self._setup is not None
        if self._setup.clients is not None:
            self._given.put_nowait(given)
        elif self._clients is None:
            self._early.append(given)
        else:
            self._begin(given)

    def _begin(self, given: Given) -> None:
        assert self._clients is not None
        self._start(self._clients.begin_at(given, self._wants_one))

    async def _take(self) -> Given | None:
        given = await self._given.get()
        if given is not None:
            self._wants_one()
        return given

    def _wants_one(self) -> None:
        if not self._enough:
            self._say(Wants(1))

    def _start(self, holding: "asyncio._CoroutineLike[None]") -> None:
        task = self._loop.create_task(holding)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._loop.call_exception_handler(
                {"message": "a conversation failed", "exception": task.exception()}
            )
        if not self._tasks:
            self._changed.set()

    async def _until_all_ended(self, until_s: float | None) -> None:
        """All conversations there will be have ended, or the time has come, or it was told to."""
        assert self._setup is not None
        while not self._stopped:
            more = self._setup.clients is None and not self._enough
            if not self._tasks and not more:
                return
            self._changed.clear()
            left_s = None if until_s is None else until_s - time.monotonic()
            if left_s is not None and left_s <= 0:
                return
            try:
                await asyncio.wait_for(self._changed.wait(), left_s)
            except TimeoutError:
                return

    def _done(self, asked: Asked) -> None:
        assert self._setup is not None
        record = asked.record
        if self._setup.keep_text:
            record = msgspec.structs.replace(record, text=asked.text)
        self._say(Done(record, asked.texts if self._setup.send_texts else ()))

    async def _pulse(self, clients: Clients) -> None:
        while True:
            self._say(Pulse(clients.sent, clients.in_flight))
            await asyncio.sleep(_PULSE_S)

    def _say(self, message: FromWorker) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(_encode(message) + b"\n")


async def _work(connection: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    transport, worker = await loop.create_unix_connection(Worker, sock=connection)
    running = loop.create_task(worker.run())
    await asyncio.wait((running, worker.closed), return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        running.result()
        transport.close()
        await worker.closed


def _allow_connections() -> None:
    """As many open files as this user may have: each request under way needs one."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with contextlib.suppress(ValueError, OSError):  # "unlimited" is more than some systems take
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def main() -> None:
    """Works until told to end, or until nobody is there to tell."""
    _allow_connections()
    # Ctrl-C in a terminal goes to all processes, and so may SIGTERM; the leading one says what they
    # mean.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    connection = socket.socket(fileno=int(sys.argv[1]))
    connection.setblocking(False)
    uvloop.run(_work(connection))


if __name__ == "__main__":
    main()
