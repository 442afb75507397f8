"""Answers written when they are due, and a log of when they were."""

import time

import msgspec

from netgain.lab.alarm import Alarm, Appointment
from netgain.lab.scripted_server.connection import Connection
from netgain.lab.scripted_server.rendering import Packet
from netgain.lab.scripted_server.script import Ending, EventKind

_REASONS = {200: b"OK", 400: b"Bad Request", 401: b"Unauthorized", 404: b"Not Found"}


class SentEvent(msgspec.Struct, frozen=True, array_like=True):
    """One event whose last byte was given to the socket: when, what, with how many tokens."""

    at_s: float
    kind: EventKind
    tokens: int


class Served(msgspec.Struct, kw_only=True):
    """What the server knows of one request; seconds of `time.monotonic()`.

    `received_s`: its first byte was read. `asked_s`: its last. `headers_s`: the status and headers
    were given to the socket; `packets_s`: each packet after them. `ended_s`: the answer was whole
    or given up; `how`: "whole", "disconnected" (by the script), "client left", or "" until then.
    """

    index: int
    path: str
    body: str
    received_s: float
    asked_s: float
    headers_s: float | None = None
    packets_s: list[float] = []
    events: list[SentEvent] = []
    ended_s: float | None = None
    how: str = ""


class Answering:
    """One request's answer. Nothing more is written once the client left."""

    def __init__(
        self, connection: Connection, served: Served, keep_alive: bool, alarm: Alarm
    ) -> None:
        self._connection = connection
        self._served = served
        self._keep_alive = keep_alive
        self._alarm = alarm
        self._appointment: Appointment | None = None
        self._packets: list[Packet] = []
        self._next = 0
        self._due_s = 0.0
        self._ending = Ending.DONE
        self._chunked = True

    def send_at(self, when_s: float, status: int, body: bytes) -> None:
        """A whole answer, JSON."""
        self._appointment = self._alarm.at(when_s, lambda: self.send(status, body))

    def send(self, status: int, body: bytes) -> None:
        """The same, now."""
        head = self._head(status, b"application/json", b"content-length: %d\r\n" % len(body))
        self._served.headers_s = self._connection.write(head + body)
        self._served.packets_s.append(self._served.headers_s)
        self._whole()

    def stream_at(
        self,
        when_s: float,
        packets: list[Packet],
        ending: Ending,
        closing_s: float,
        close_delimited: bool,
    ) -> None:
        """A stream whose headers are due then; a disconnect comes `closing_s` after its end."""
        self._packets, self._ending = packets, ending
        if ending is Ending.DISCONNECT:
            self._packets = [*packets, Packet(closing_s, b"", ())]
        self._chunked = not close_delimited
        if close_delimited:
            self._keep_alive = False
        self._due_s = when_s
        self._appointment = self._alarm.at(when_s, self._begin)

    @property
    def ended(self) -> bool:
        """Whether nothing more will come."""
        return bool(self._served.how)

    def client_left(self) -> None:
        """The connection is no more."""
        if self._appointment is not None:
            self._appointment.cancel()
        self._end("client left", time.monotonic())

    def _begin(self) -> None:
        length = b"transfer-encoding: chunked\r\n" if self._chunked else b""
        head = self._head(200, b"text/event-stream; charset=utf-8", length)
        self._served.headers_s = self._connection.write(head)
        self._schedule()

    def _schedule(self) -> None:
        """Writes what is due without a wait, then waits for the next packet."""
        while self._next < len(self._packets):
            packet = self._packets[self._next]
            if packet.after_s > 0:
                # From when it was due, not from when it was written: lateness does not add up.
                self._due_s += packet.after_s
                self._appointment = self._alarm.at(self._due_s, self._write_next)
                return
            self._write_packet(packet)
        self._finish()

    def _write_next(self) -> None:
        self._write_packet(self._packets[self._next])
        self._schedule()

    def _write_packet(self, packet: Packet) -> None:
        self._next += 1
        data = packet.data
        if not data:
            return
        if self._chunked:
            data = b"%x\r\n%s\r\n" % (len(data), data)
            whole = self._ending not in (Ending.DISCONNECT, Ending.STALL)
            if whole and self._next == len(self._packets):
                data += b"0\r\n\r\n"
        at_s = self._connection.write(data)
        self._served.packets_s.append(at_s)
        for kind, tokens in packet.completes:
            self._served.events.append(SentEvent(at_s, kind, tokens))

    def _finish(self) -> None:
        match self._ending:
            case Ending.STALL:
                return
            case Ending.DISCONNECT:
                self._end("disconnected", time.monotonic())
                self._connection.close()
            case _:
                if self._chunked and not self._packets:
                    self._connection.write(b"0\r\n\r\n")
                self._whole()

    def _whole(self) -> None:
        self._end("whole", time.monotonic())
        if not self._keep_alive:
            self._connection.close()

    def _end(self, how: str, at_s: float) -> None:
        if not self._served.how:
            self._served.how, self._served.ended_s = how, at_s

    def _head(self, status: int, media_type: bytes, length: bytes) -> bytes:
        close = b"" if self._keep_alive else b"connection: close\r\n"
        return b"HTTP/1.1 %d %s\r\ncontent-type: %s\r\nx-request-id: scripted-%d\r\n%s%s\r\n" % (
            status,
            _REASONS.get(status, b"As Scripted"),
            media_type,
            self._served.index,
            length,
            close,
        )
