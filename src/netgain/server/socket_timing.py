"""When a request's first byte came and its last one left, seen at the socket.

The ledger's stages come from the handlers; what they are held against comes from here.
"""

import asyncio
import time
from typing import Any, Final

from starlette.requests import Request
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_KEY: Final = "netgain_socket"


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
    """uvicorn's protocol with a `SocketTimes` for every request."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Puts the clock between uvicorn and the socket."""
        self._timed = TimedTransport(transport)
        self._data_ns = self._timed.last_write_ns
        super().connection_made(self._timed)  # type: ignore[arg-type]

    def data_received(self, data: bytes) -> None:
        """Looks at the clock before anything is parsed."""
        self._data_ns = time.monotonic_ns()
        super().data_received(data)

    def on_message_begin(self) -> None:
        """A request begins in the data just received."""
        super().on_message_begin()
        self.scope["state"][_KEY] = SocketTimes(self._data_ns, self._timed)


def socket_times(request: Request) -> SocketTimes:
    """The times of a request that came through `TimedHttpProtocol`."""
    times = request.scope["state"][_KEY]
    assert isinstance(times, SocketTimes)
    return times
