"""When a request's first byte came and its last one left, seen at the socket.

The ledger's stages come from the handlers; what they are held against comes from here.
"""

import asyncio
import re
import sys
import time
from http import HTTPStatus
from typing import Any, Final

import httptools
from starlette.requests import Request
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from netgain.server.errors import ApiError

_KEY: Final = "netgain_socket"

MAX_HEAD_BYTES: Final = 64 << 10
"""Of a request's line and headers."""

_LINGER_S: Final = 1.0
"""A refused client may still be sending: closing at once could take the answer from it unread."""

_REQUEST_LINE: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+ [^ \r\n]+ HTTP/[0-9]")

_UNKNOWN_METHOD: Final = ApiError(
    400,
    "the request's method is unknown; /openapi.json lists the paths and their methods",
    code="unknown_method",
)

_HEAD_TOO_LARGE: Final = ApiError(
    431,
    f"the request's line and headers take more than {MAX_HEAD_BYTES:,} bytes; send less",
    code="head_too_large",
)


class _HeadTooLarge(Exception):  # noqa: N818
    """Ends the parser's work; nobody else sees it."""


class SocketTimes:
    """One request's times, in monotonic nanoseconds."""

    __slots__ = ("_transport", "first_byte_ns")

    def __init__(self, first_byte_ns: int, transport: "TimedTransport") -> None:
        self.first_byte_ns = first_byte_ns
        self._transport = transport

    @property
    def last_write_ns(self) -> int:
        """When the connection's last write returned; ask before its next request can begin."""
        return self._transport.last_write_ns


class TimedTransport:
    """A transport that remembers when it was last written to; all else is the transport's own."""

    __slots__ = ("_transport", "_write", "last_write_ns")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._write = transport.write
        self.last_write_ns = time.monotonic_ns()

    def write(self, data: bytes) -> None:
        """Writes, then looks at the clock."""
        self._write(data)
        self.last_write_ns = time.monotonic_ns()

    def __getattr__(self, name: str) -> Any:  # delegation is untyped by nature
        return getattr(self._transport, name)


class TimedHttpProtocol(HttpToolsProtocol):
    """uvicorn's protocol with a `SocketTimes` for every request, and bounded headers."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Puts the clock between uvicorn and the socket."""
        self._timed = TimedTransport(transport)
        self._data_ns = self._timed.last_write_ns
        self._in_head = True
        self._head_ended = False
        self._head_bytes = 0
        self._parsed_bytes = 0
        self._linger: asyncio.TimerHandle | None = None
        super().connection_made(self._timed)  # type: ignore[arg-type]

    def data_received(self, data: bytes) -> None:
        """Looks at the clock before anything is parsed; after a refusal nothing is."""
        if self._linger is not None:
            return
        self._data_ns = time.monotonic_ns()
        head_began_before = self._in_head
        self._head_ended = False
        self._data = data
        super().data_received(data)
        if not head_began_before or self._head_ended or self._linger is not None:
            return
        # A line that has not ended is not in the parser's account yet.
        self._head_bytes += len(data)
        if self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self._refuse(_HEAD_TOO_LARGE)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is left to wait for."""
        if self._linger is not None:
            self._linger.cancel()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP request is told so in the form of every other error."""
        fault = sys.exception()
        if self._parsed_bytes > MAX_HEAD_BYTES:
            self._refuse(_HEAD_TOO_LARGE)
        elif isinstance(fault, httptools.HttpParserInvalidMethodError) and _REQUEST_LINE.match(
            self._data
        ):
            self._refuse(_UNKNOWN_METHOD)
        else:
            self._refuse(ApiError(400, f"{msg.rstrip('.').lower()}; send HTTP/1.1", code="no_http"))

    def _refuse(self, error: ApiError) -> None:
        """An answer without a request: the connection cannot go on after it."""
        busy = self.cycle is not None and not self.cycle.response_complete
        body = error.body()
        head = (
            f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
            "connection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self._linger = self.loop.call_later(_LINGER_S, self.transport.close)
        if busy:
            self.transport.close()
        else:
            self.transport.write_eof()

    def on_url(self, url: bytes) -> None:
        """Counts."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Counts."""
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def _count(self, size: int) -> None:
        """With what separates it from the next, at least."""
        self._parsed_bytes += size + 4
        if self._parsed_bytes > MAX_HEAD_BYTES:
            raise _HeadTooLarge

    def on_headers_complete(self) -> None:
        """The rest is bounded by whoever reads the body."""
        super().on_headers_complete()
        self._in_head = False
        self._head_ended = True

    def on_message_complete(self) -> None:
        """Whatever comes next is another request's head."""
        super().on_message_complete()
        self._in_head = True
        self._head_bytes = 0

    def on_message_begin(self) -> None:
        """A request begins in the data just received."""
        super().on_message_begin()
        self._parsed_bytes = 0
        self.scope["state"][_KEY] = SocketTimes(self._data_ns, self._timed)


def socket_times(request: Request) -> SocketTimes:
    """The times of a request that came through `TimedHttpProtocol`."""
    times = request.scope["state"][_KEY]
    assert isinstance(times, SocketTimes)
    return times
