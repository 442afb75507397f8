"""The engine's own process: a core and its executor behind one ZeroMQ socket.

Started by a launcher as `python -m netgain.engine.process --connect ENDPOINT --identity NAME`,
with `EngineSettings` as one line of JSON on standard input, which stays open: when it closes, the
parent is gone and the process ends at once.
"""

import argparse
import contextlib
import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Final, assert_never

import msgspec
import zmq

from netgain.config import EngineSettings
from netgain.engine.events import EmitOutputs, Event, RequestAborted, RequestArrived, StepDone
from netgain.engine.messages import (
    Abort,
    ClockPing,
    ClockPong,
    FromEngine,
    LoadPart,
    LoadProgress,
    PrefixCacheReset,
    Ready,
    ResetPrefixCache,
    Shutdown,
    StartFailed,
    StepOutputs,
    Submit,
    ToEngine,
)
from netgain.engine.runner import EngineRunner, EventInbox
from netgain.errors import NetgainError
from netgain.hardware.host import process_age_s

_log: Final = logging.getLogger(__name__)
_LINGER_MS: Final = 1000


class EngineServer:
    """Serves one frontend until told to stop."""

    def __init__(self, socket: "zmq.Socket[bytes]", settings: EngineSettings) -> None:
        self._socket = socket
        self._settings = settings
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(ToEngine)
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK)
        self._inbox = EventInbox(lambda: os.eventfd_write(self._wake_fd, 1))
        self._emitted: EmitOutputs | None = None
        self._stopping = False

    def serve(self, import_s: float) -> None:
        """Loads, reports ready, and serves.

        Raises `NetgainError` when the engine cannot start, after the frontend was told.
        """
        self.send(LoadProgress(LoadPart("import", import_s)))
        try:
            from netgain.engine.assembly import build_engine

            engine = build_engine(
                self._settings, self._inbox.post, lambda part: self.send(LoadProgress(part))
            )
        except NetgainError as error:
            self.send(StartFailed(str(error)))
            raise
        info = msgspec.structs.replace(
            engine.info, load=(LoadPart("import", import_s), *engine.info.load)
        )
        self.send(Ready(info))
        runner = EngineRunner(engine.core, engine.executor, engine.clock, self._keep)
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        poller.register(self._wake_fd, zmq.POLLIN)
        while not self._stopping:
            wait_s = runner.seconds_to_timer()
            poller.poll(None if wait_s is None else int(wait_s * 1000) + 1)
            self._turn(runner)
        engine.executor.close()

    def send(self, message: FromEngine) -> None:
        """Sends one message."""
        self._socket.send(self._encoder.encode(message))

    def _keep(self, emitted: EmitOutputs) -> None:
        self._emitted = emitted

    def _turn(self, runner: EngineRunner) -> None:
        """Everything that has come in: one call of the core, one message out."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._wake_fd)
        events = self._inbox.take()
        stepped = any(isinstance(event, StepDone) for event in events)
        events.extend(self._receive(runner))
        runner.turn(events)
        emitted, self._emitted = self._emitted, None
        if emitted is None and not stepped:
            return
        self.send(
            StepOutputs(
                emitted.outputs if emitted is not None else (),
                runner.core.counters(),
                time.monotonic_ns(),
            )
        )

    def _receive(self, runner: EngineRunner) -> list[Event]:
        events: list[Event] = []
        while True:
            try:
                frame = self._socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                return events
            message = self._decoder.decode(frame)
            match message:
                case Submit(request):
                    events.append(RequestArrived(request))
                case Abort(ids, reason):
                    events.extend(RequestAborted(request_id, reason) for request_id in ids)
                case ClockPing(sent_ns):
                    now_ns = time.monotonic_ns()
                    self.send(ClockPong(sent_ns, now_ns, time.monotonic_ns()))
                case ResetPrefixCache():
                    self.send(PrefixCacheReset(runner.core.reset_prefix_cache()))
                case Shutdown():
                    self._stopping = True
                case _:
                    assert_never(message)


def main() -> int:
    """Entry point; the exit code is 1 when the engine could not start."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connect", required=True, help="ZeroMQ endpoint of the frontend")
    parser.add_argument("--identity", required=True, help="this engine's name there")
    arguments = parser.parse_args()
    # An interrupt from the terminal reaches the parent too, which ends this process in order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.basicConfig(format="%(asctime)s engine %(levelname)s %(message)s")
    settings = EngineSettings.model_validate_json(sys.stdin.buffer.readline())
    threading.Thread(target=_die_with_parent, args=(arguments.connect,), daemon=True).start()
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    socket = context.socket(zmq.DEALER)
    socket.setsockopt(zmq.IDENTITY, arguments.identity.encode())
    socket.setsockopt(zmq.LINGER, _LINGER_MS)
    socket.connect(arguments.connect)
    # Only now: it takes time, and the parent may die meanwhile.
    import netgain.engine.assembly  # noqa: F401

    server = EngineServer(socket, settings)
    try:
        server.serve(process_age_s())
    except NetgainError:
        return 1
    finally:
        socket.close()
        context.term()
    return 0


def _die_with_parent(endpoint: str) -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    # A parent that was killed left its socket behind, in a directory that holds nothing else.
    socket_path = Path(endpoint.removeprefix("ipc://"))
    with contextlib.suppress(OSError):
        socket_path.unlink()
        socket_path.parent.rmdir()
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
