"""The engine client for an engine in a process of its own: ZeroMQ and msgspec in an asyncio loop.

This side binds a ROUTER on a Unix socket in a private directory; the engine connects a DEALER.
Each engine life has a socket of its own, so that nothing of a dead one reaches the next.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from typing import Final

import msgspec
import zmq

from netgain.engine.client import EngineState, OutputEvent, OutputStream, StepArrival
from netgain.engine.clock_offset import ClockOffset, clock_sample
from netgain.engine.messages import (
    Abort,
    ClockPing,
    ClockPong,
    EngineInfo,
    EngineRequest,
    FinishReason,
    FromEngine,
    LoadPart,
    LoadProgress,
    PrefixCacheReset,
    Ready,
    RequestId,
    ResetPrefixCache,
    Shutdown,
    StartFailed,
    StepOutputs,
    Submit,
    ToEngine,
)
from netgain.errors import EngineDeadError
from netgain.ledger.counters import EngineCounters

_log = logging.getLogger(__name__)
_PINGS_AT_START: Final = 5
_PING_INTERVAL_S: Final = 5.0


class IpcEngineClient:
    """Speaks to one engine process at a time; outlives it, and takes the next one.

    `on_state` is called after each change of state; `on_step` with each new snapshot of counters;
    `on_load` with each part of loading as it ends; `on_start_failed` with the engine's own words;
    `on_garbled` when the engine said something that is no message: it should be ended.
    """

    def __init__(self, identity: str = "engine-0") -> None:
        self.identity = identity
        self.on_state: Callable[[EngineState], None] | None = None
        self.on_load: Callable[[LoadPart], None] | None = None
        self.on_start_failed: Callable[[str], None] | None = None
        self.on_garbled: Callable[[], None] | None = None
        self.on_step: Callable[[EngineCounters], None] | None = None
        self._peer = identity.encode()
        self._state = EngineState.STARTING
        self._info: EngineInfo | None = None
        self._loaded: list[LoadPart] = []
        self._counters = EngineCounters()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket: zmq.Socket[bytes] | None = None
        self._streams: dict[RequestId, OutputStream] = {}
        self._resets: list[asyncio.Future[int]] = []
        self._clock = ClockOffset()
        self._timekeeper: asyncio.Task[None] | None = None
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder: msgspec.msgpack.Decoder[FromEngine] = msgspec.msgpack.Decoder(FromEngine)

    @property
    def state(self) -> EngineState:
        """Whether the engine loads, serves, or is gone."""
        return self._state

    @property
    def info(self) -> EngineInfo | None:
        """What the engine is; None until it was ready once."""
        return self._info

    @property
    def loaded(self) -> tuple[LoadPart, ...]:
        """The parts of loading that ended so far in this engine life."""
        return tuple(self._loaded)

    @property
    def counters(self) -> EngineCounters:
        """The latest snapshot of this engine life's counters."""
        return self._counters

    def begin(self, endpoint: str) -> None:
        """Listens at `endpoint` for a new engine process; call from the running loop."""
        self._stop_listening()
        socket = self._context.socket(zmq.ROUTER)
        socket.set(zmq.LINGER, 0)
        socket.set(zmq.SNDHWM, 0)
        socket.set(zmq.RCVHWM, 0)
        socket.bind(endpoint)
        self._socket = socket
        self._loaded.clear()
        self._clock = ClockOffset()
        self._enter(EngineState.STARTING)
        asyncio.get_running_loop().add_reader(socket.FD, self._read)

    def end(self, reason: str) -> None:
        """The engine process is gone: every request in flight fails at once with `reason`."""
        self._stop_listening()
        error = EngineDeadError(reason)
        streams, self._streams = self._streams, {}
        resets, self._resets = self._resets, []
        for stream in streams.values():
            stream.fail(error)
        for reset in resets:
            if not reset.done():
                reset.set_exception(error)
        self._counters = EngineCounters()
        self._enter(EngineState.DEAD)

    def close(self) -> None:
        """Gives back the sockets; call after `end`."""
        self._stop_listening()
        self._context.destroy(linger=0)

    def submit(self, request: EngineRequest) -> OutputStream:
        """Sends a request. Raises `EngineDeadError` unless the engine is ready."""
        self._require_ready()
        now_ns = time.monotonic_ns()
        frame = self._encoder.encode(Submit(request, now_ns))
        stream = OutputStream(now_ns, len(frame))
        self._streams[request.id] = stream
        self._send_frame(frame)
        return stream

    def abort(self, id_: RequestId, reason: FinishReason) -> None:
        """Asks for a request's end; its last output still arrives on its stream."""
        if id_ in self._streams:
            self._send(Abort((id_,), reason))

    async def reset_prefix_cache(self) -> int:
        """Forgets every cached block nobody holds; returns how many. Raises `EngineDeadError`."""
        self._require_ready()
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._resets.append(answer)
        self._send(ResetPrefixCache())
        return await answer

    def shut_down(self) -> None:
        """Asks the engine process to end."""
        self._send(Shutdown())

    def _require_ready(self) -> None:
        if self._state is not EngineState.READY:
            raise EngineDeadError(
                "the engine is still loading; try again shortly"
                if self._state is EngineState.STARTING
                else "the engine ended and is being restarted; try again shortly"
            )

    def _enter(self, state: EngineState) -> None:
        self._state = state
        if self.on_state is not None:
            self.on_state(state)

    def _stop_listening(self) -> None:
        if self._timekeeper is not None:
            self._timekeeper.cancel()
            self._timekeeper = None
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket.FD)
            self._socket.close(linger=0)
            self._socket = None

    def _send(self, message: ToEngine) -> None:
        self._send_frame(self._encoder.encode(message))

    def _send_frame(self, frame: bytes) -> None:
        if self._socket is None:
            return
        # Without a high-water mark a send never waits.
        self._socket.send_multipart((self._peer, frame), zmq.NOBLOCK)
        # The descriptor tells of changes only, and sending may have taken notice of one.
        if self._socket.poll(0):
            asyncio.get_running_loop().call_soon(self._read)

    def _read(self) -> None:
        """Everything that has come in: each message is decoded once, whomever it serves.

        On the socket's descriptor itself: futures and a reading task would cost more per step than
        all the rest.
        """
        while self._socket is not None:
            try:
                frames = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            received_ns = time.monotonic_ns()
            if frames[0] != self._peer:
                continue
            try:
                message = self._decoder.decode(frames[-1])
            except msgspec.DecodeError:
                _log.exception("the engine sent something that is not a message")
                if self.on_garbled is not None:
                    self.on_garbled()
                continue
            self._handle(message, len(frames[-1]), received_ns)

    def _handle(self, message: FromEngine, size: int, received_ns: int) -> None:
        match message:
            case StepOutputs():
                self._dispatch(message, size, received_ns)
            case ClockPong(ping_ns, engine_received_ns, engine_sent_ns):
                self._clock.add(
                    clock_sample(ping_ns, engine_received_ns, engine_sent_ns, received_ns)
                )
            case LoadProgress(part):
                self._loaded.append(part)
                if self.on_load is not None:
                    self.on_load(part)
            case Ready(info):
                self._info = info
                self._loaded = list(info.load)
                self._enter(EngineState.READY)
                self._timekeeper = asyncio.ensure_future(self._keep_time())
            case StartFailed(text):
                if self.on_start_failed is not None:
                    self.on_start_failed(text)
            case PrefixCacheReset(blocks):
                if self._resets:
                    answer = self._resets.pop(0)
                    if not answer.done():
                        answer.set_result(blocks)

    def _dispatch(self, step: StepOutputs, size: int, received_ns: int) -> None:
        self._counters = step.counters
        if self.on_step is not None:
            self.on_step(step.counters)
        if not step.outputs:
            return
        offset_ns = self._clock.offset_ns
        # An offset is measured, so it errs: a message never arrives before it was sent.
        sent_ns = min(step.sent_ns - offset_ns, received_ns)
        arrival = StepArrival(
            received_ns,
            sent_ns,
            size // len(step.outputs),
            offset_ns,
        )
        for output in step.outputs:
            stream = (
                self._streams.get(output.id)
                if output.finish_reason is None
                else self._streams.pop(output.id, None)
            )
            if stream is not None:
                stream.push(OutputEvent(output, arrival))

    async def _keep_time(self) -> None:
        for _ in range(_PINGS_AT_START):
            self._send(ClockPing(time.monotonic_ns()))
            await asyncio.sleep(0.01)
        while True:
            await asyncio.sleep(_PING_INTERVAL_S)
            with contextlib.suppress(zmq.ZMQError):
                self._send(ClockPing(time.monotonic_ns()))
