"""When a request's first byte came and its last one left, seen at the socket.

The ledger's stages come from the handlers; what they are held against comes from here.
"""

import asyncio
import time
from http import HTTPStatus
from typing import Any, Final

from starlette.requests import Request
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from netgain.server.errors import ApiError

_KEY: Final = "netgain_socket"

MAX_HEAD_BYTES: Final = 64 << 10
"""Of a request's line and headers, give or take what arrives with their last bytes."""

_HEAD_TOO_LARGE: Final = ApiError(
    431,
    f"the request's line and headers take more than {MAX_HEAD_BYTES:,} bytes; send less",
    code="head_too_large",
)


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
        super().connection_made(self._timed)  # type: ignore[arg-type]

    def data_received(self, data: bytes) -> None:
        """Looks at the clock before anything is parsed."""
        self._data_ns = time.monotonic_ns()
        head_began_before = self._in_head
        self._head_ended = False
        super().data_received(data)
        if not head_began_before or self._head_ended:
            return
        self._head_bytes += len(data)
        if self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self._refuse(_HEAD_TOO_LARGE)

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP request is told so in the form of every other error."""
        self._refuse(ApiError(400, f"{msg.rstrip('.').lower()}; send HTTP/1.1", code="no_http"))

    def _refuse(self, error: ApiError) -> None:
        """An answer without a request: the connection cannot go on after it."""
        body = error.body()
        head = (
            f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
            "connection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

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
        self.scope["state"][_KEY] = SocketTimes(self._data_ns, self._timed)


def socket_times(request: Request) -> SocketTimes:
    """The times of a request that came through `TimedHttpProtocol`."""
    times = request.scope["state"][_KEY]
    assert isinstance(times, SocketTimes)
    return times
