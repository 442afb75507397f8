"""One HTTP request from first byte to last: places held, client watched, books closed."""

import asyncio
import time

from starlette.requests import Request

from netgain.server.errors import ApiError
from netgain.server.frontend import Frontend, Job
from netgain.server.generation import Generation
from netgain.server.identity import identity_of
from netgain.server.ledger_book import ClosedLedger
from netgain.server.request_id import distinct
from netgain.server.socket_timing import SocketTimes, socket_times


class Exchange:
    """Whatever happens to the client or the engine, `close` leaves nothing behind.

    A client that goes away is noticed at once, streaming or not, and its requests are aborted.
    """

    def __init__(self, request: Request, frontend: Frontend) -> None:
        identity = identity_of(request)
        identity.id = distinct(identity.id, frontend.book)
        self.id = identity.id
        self.trace_id = identity.trace_id
        self.times: SocketTimes = socket_times(request)
        self.generations: tuple[Generation, ...] = ()
        self._request = request
        self._frontend = frontend
        self._places = 0
        self._gone = False
        self._watch: asyncio.Task[None] | None = None
        frontend.book.begin(self.id)

    async def open(self, job: Job) -> tuple[Generation, ...]:
        """Admits, tokenises and submits; returns what is new among the generations.

        Where there were others before, they have ended, and their places serve the new ones as far
        as they go. Raises `ApiError`, `NetgainError`.
        """
        wanted = max(job.places - self._places, 0)
        self._frontend.admit(wanted, "n" if job.samples > 1 else job.field)
        self._places += wanted
        if self._watch is None:
            # The body was read to its end: whatever is received next is the client's leaving.
            self._watch = asyncio.ensure_future(self._until_gone())
        opened = await self._frontend.open(job)
        self.generations += opened
        if self._gone:
            self._abort()
            raise ApiError(499, "the client went away", code="client_disconnected")
        return opened

    def failure(self) -> ApiError | None:
        """The first error among the generations that ended."""
        for generation in self.generations:
            if generation.ended and (failure := self._frontend.failure(generation)) is not None:
                return failure
        return None

    def ledgers(self, delivered_ns: int, end_ns: int) -> tuple[ClosedLedger, ...]:
        """Each generation's ledger as of now."""
        return tuple(
            generation.ledger(delivered_ns, end_ns, self.trace_id)
            for generation in self.generations
        )

    def close(self) -> None:
        """The last byte was written, or never will be."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        end_ns = time.monotonic_ns() if self._gone else self.times.last_write_ns
        self._frontend.close(self.id, max(end_ns, self.times.first_byte_ns))
        places, self._places = self._places, 0
        self._frontend.release(places)

    async def _until_gone(self) -> None:
        while (await self._request.receive())["type"] != "http.disconnect":
            pass
        self._gone = True
        self._abort()

    def _abort(self) -> None:
        for generation in self.generations:
            generation.abort()
