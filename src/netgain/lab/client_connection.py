"""HTTP/1.1 to the server under test: what is read is only stamped and kept, and looked at later."""

import asyncio
import time
from enum import StrEnum
from typing import Final, cast

import httptools

MAX_BODY_BYTES: Final = 256 * 1024 * 1024


class Outcome(StrEnum):
    """How an exchange ended."""

    WHOLE = "whole"
    CUT = "cut"
    """The connection ended first."""
    LATE = "late"
    """The time given to it had passed."""
    GARBLED = "garbled"
    """What came is no HTTP, or more than is kept."""
    GIVEN_UP = "given up"
    """By this side."""


class Exchange:
    """One request and what came of it; times of `time.monotonic()`.

    `parts` are the body's pieces, each with the time it was read from the socket. `at_end`: the
    body's end was the connection's, so nobody can know whether it was whole.
    """

    __slots__ = ("at_end", "detail", "end_s", "headers", "outcome", "parts", "sent_s", "status")

    def __init__(self) -> None:
        self.sent_s: float | None = None
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.parts: list[tuple[float, bytes]] = []
        self.end_s: float | None = None
        self.outcome: Outcome | None = None
        self.detail = ""
        self.at_end = False


class ClientConnection(asyncio.Protocol):
    """One connection, for one exchange at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._loop = asyncio.get_running_loop()
        self._exchange: Exchange | None = None
        self._done: asyncio.Future[None] | None = None
        self._now_s = 0.0
        self._size = 0
        self._reusable = True
        self.used = 0
        """How many exchanges it has had."""
        self.idle_since_s = time.monotonic()

    @property
    def usable(self) -> bool:
        """Whether another exchange may begin."""
        return self._transport is not None and self._reusable and self._exchange is None

    async def exchange(self, request: bytes, timeout_s: float, exchange: Exchange) -> None:
        """Sends a whole request and fills `exchange` in until it has an outcome.

        When cancelled, `exchange` keeps what came until then, and the connection is closed.
        """
        assert self._transport is not None
        self._exchange, self._size = exchange, 0
        self.used += 1
        done = self._done = self._loop.create_future()
        watch = self._loop.call_later(timeout_s, self._end, Outcome.LATE)
        self._transport.write(request)
        if not self._transport.get_write_buffer_size():
            exchange.sent_s = time.monotonic()
        try:
            await done
        finally:
            watch.cancel()
            self._end(Outcome.GIVEN_UP)
            self._exchange = self._done = None
            self.idle_since_s = time.monotonic()

    def close(self) -> None:
        """Ends the connection."""
        self._reusable = False
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It stands."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass of it
        # Written at once, as far as the socket takes it; `resume_writing` says when all of it was.
        self._transport.set_write_buffer_limits(high=0)

    def resume_writing(self) -> None:
        """The last byte was given to the socket."""
        exchange = self._exchange
        if exchange is not None and exchange.sent_s is None:
            exchange.sent_s = time.monotonic()

    def data_received(self, data: bytes) -> None:
        """Bytes of an answer."""
        self._now_s = time.monotonic()
        if self._parser is None or self._exchange is None:
            self.close()  # said without being asked
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._end(Outcome.GARBLED, f"the answer is no HTTP ({error})")

    def connection_lost(self, exc: Exception | None) -> None:
        """It ended, whoever ended it."""
        self._now_s = time.monotonic()
        self._transport = self._parser = None  # the parser refers back to this
        exchange = self._exchange
        if exchange is not None and exchange.at_end and exc is None:
            self._end(Outcome.WHOLE)
        else:
            self._end(Outcome.CUT, str(exc) if exc else "closed by the server")

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header of the answer."""
        if self._exchange is not None:
            self._exchange.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """The body comes next."""
        exchange, parser = self._exchange, self._parser
        assert parser is not None
        if exchange is None:
            return
        status = parser.get_status_code()
        if status < 200:
            exchange.headers.clear()
            return
        exchange.status = status
        headers = exchange.headers
        exchange.at_end = (
            "content-length" not in headers
            and "chunked" not in headers.get("transfer-encoding", "").lower()
            and status not in (204, 304)
        )
        if exchange.sent_s is None:
            exchange.sent_s = self._now_s  # answered before it had read everything

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        exchange = self._exchange
        if exchange is None or exchange.outcome is not None:
            return
        exchange.parts.append((self._now_s, body))
        self._size += len(body)
        if self._size > MAX_BODY_BYTES:
            self._end(Outcome.GARBLED, f"the answer has more than {MAX_BODY_BYTES:,} bytes")

    def on_message_complete(self) -> None:
        """The answer is whole, or was only a provisional one."""
        assert self._parser is not None
        if self._exchange is None or self._exchange.status is None:
            return
        if not self._parser.should_keep_alive():
            self._reusable = False
        self._end(Outcome.WHOLE)

    def _end(self, outcome: Outcome, detail: str = "") -> None:
        """The first of all ends counts."""
        exchange, done = self._exchange, self._done
        if exchange is None or done is None or exchange.outcome is not None:
            return
        exchange.outcome, exchange.detail = outcome, detail
        late = outcome in (Outcome.LATE, Outcome.GIVEN_UP)
        exchange.end_s = time.monotonic() if late else self._now_s
        if outcome is not Outcome.WHOLE or not self._reusable:
            self.close()
        if not done.done():
            done.set_result(None)
