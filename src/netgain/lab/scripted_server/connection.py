"""One client's connection: HTTP/1.1 parsed from the socket, one request after another."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import httptools


@dataclass(frozen=True, slots=True)
class Request:
    """A whole request; `received_s` its first byte was read, `asked_s` its last."""

    path: str
    authorization: str
    body: bytes
    keep_alive: bool
    received_s: float
    asked_s: float


class Connection(asyncio.Protocol):
    """Hands requests over as they become whole; `on_came` is called once it stands, `on_left` at
    its end.
    """

    def __init__(
        self,
        on_came: Callable[["Connection"], None],
        on_request: Callable[["Connection", Request], None],
        on_left: Callable[["Connection"], None],
    ) -> None:
        self._on_came = on_came
        self._on_request = on_request
        self._on_left = on_left
        self._parser: httptools.HttpRequestParser | None = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._received_s = 0.0
        self._path = self._authorization = ""
        self._body: list[bytes] = []

    def write(self, data: bytes) -> float:
        """Gives bytes to the socket; returns when that was. Nothing happens once it is closed."""
        if self._transport is not None:
            self._transport.write(data)
        return time.monotonic()

    def close(self) -> None:
        """Ends the connection, after what was written."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Ends the connection now."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client came."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass of it
        # What is written goes to the socket at once, not at the end of the loop's turn.
        self._transport.set_write_buffer_limits(high=0)
        self._on_came(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection ended, whoever ended it."""
        del exc
        self._transport = self._parser = None
        self._on_left(self)

    def data_received(self, data: bytes) -> None:
        """Bytes of a request."""
        if not self._received_s:
            self._received_s = time.monotonic()
        if self._parser is None:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.close()

    def on_url(self, url: bytes) -> None:
        """A part of the path."""
        self._path += url.decode("latin-1")

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        if name.lower() == b"authorization":
            self._authorization = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._body.append(body)

    def on_message_complete(self) -> None:
        """The request is whole."""
        assert self._parser is not None
        request = Request(
            self._path.partition("?")[0],
            self._authorization,
            b"".join(self._body),
            self._parser.should_keep_alive(),
            self._received_s,
            time.monotonic(),
        )
        self._path = self._authorization = ""
        self._body, self._received_s = [], 0.0
        self._on_request(self, request)
