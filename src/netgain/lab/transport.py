"""One request, from its body to its record. It is asked once: nothing is ever tried again."""

import asyncio
import time
from dataclasses import dataclass
from typing import Final

import msgspec

from netgain._version import __version__
from netgain.lab.answer import Answer, error_message, read_stream, read_whole
from netgain.lab.client_connection import ClientConnection, Exchange, Outcome
from netgain.lab.connections import ConnectError, Connections, OwnLimitError
from netgain.lab.counting import count_by_server
from netgain.lab.record import ErrorKind, Failure, RequestRecord, TokenEvent
from netgain.lab.target import Target

_REFUSALS: Final = (429, 503)


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    """Which request is asked, and when it was meant to be; seconds since the run's zero."""

    index: int
    request_class: str
    conversation: int
    turn: int
    intended_s: float
    prompt_tokens: int | None
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Reply:
    """What came of a request, not looked at yet. `failure`: it did not even get a connection."""

    intent: Intent
    exchange: Exchange
    reused: bool = False
    failure: Failure | None = None

    @property
    def cancelled(self) -> bool:
        """Whether the request ended because its task was cancelled."""
        if self.failure is not None:
            return self.failure.kind is ErrorKind.CANCELLED
        return self.exchange.outcome is Outcome.GIVEN_UP

    @property
    def end_s(self) -> float:
        """When it ended, of `time.monotonic()`."""
        assert self.exchange.end_s is not None
        return self.exchange.end_s


@dataclass(frozen=True, slots=True)
class Asked:
    """A request's record, what it said, and what each of its events added to which choice."""

    record: RequestRecord
    text: str
    texts: tuple[tuple[tuple[int, str], ...], ...]


class Transport:
    """Asks one target. `zero_s`: the run's zero, of `time.monotonic()`."""

    def __init__(self, target: Target, zero_s: float) -> None:
        self._target = target
        self._zero_s = zero_s
        self._connections = Connections(target.endpoint, target.connect_timeout_s)
        head = request_head(target, "POST", target.api.path)
        self._head = head + b"content-length: "

    @property
    def lead_s(self) -> float:
        """How long before a request is due its connection should be taken."""
        return self._connections.lead_s

    async def connect(self) -> ClientConnection:
        """A connection for one request. Raises `ConnectError`."""
        return await self._connections.take()

    def close(self) -> None:
        """Closes idle connections."""
        self._connections.close()

    async def ask(
        self, intent: Intent, body: bytes, connection: ClientConnection | None = None
    ) -> Reply:
        """Sends the request now, on `connection` if it is still usable, and waits for its end.

        A task that is cancelled meanwhile gets a reply that says so, and its cancellation is
        swallowed.
        """
        exchange = Exchange()
        reused = False
        try:
            if connection is None or not connection.usable:
                connection = await self._connections.take()
            reused = connection.used > 0
            request = self._head + b"%d\r\n\r\n" % len(body) + body
            await connection.exchange(request, self._target.timeout_s, exchange)
            self._connections.give_back(connection)
        except ConnectError as error:
            return self.unconnected(intent, error)
        except asyncio.CancelledError:
            _uncancel()
            if exchange.outcome is None:
                return self.unsent(intent)
        return Reply(intent, exchange, reused)

    def unconnected(self, intent: Intent, error: ConnectError) -> Reply:
        """The reply to a request without a connection."""
        own = isinstance(error, OwnLimitError)
        return _unasked(
            intent, Failure(ErrorKind.GENERATOR if own else ErrorKind.CONNECT, str(error))
        )

    def unsent(self, intent: Intent) -> Reply:
        """The reply to a request that was given up before it was sent."""
        return _unasked(
            intent, Failure(ErrorKind.CANCELLED, "the run ended before a connection stood")
        )

    def read(self, reply: Reply) -> Asked:
        """The record of a reply: here the answer is looked at, after its time is over."""
        intent, exchange = reply.intent, reply.exchange
        zero_s = self._zero_s

        def since(at_s: float | None) -> float | None:
            return None if at_s is None else at_s - zero_s

        blank = RequestRecord(
            index=intent.index,
            request_class=intent.request_class,
            conversation=intent.conversation,
            turn=intent.turn,
            intended_s=intent.intended_s,
            prompt_tokens=intent.prompt_tokens,
            max_tokens=intent.max_tokens,
            end_s=since(exchange.end_s),
            failure=reply.failure,
        )
        if reply.failure is not None:
            return Asked(blank, "", ())
        answer = _answer(exchange)
        content = answer.content
        spoken = next((event for event in content if not event.reasoning), None)
        counted = count_by_server(answer)
        record = msgspec.structs.replace(
            blank,
            sent_s=since(exchange.sent_s),
            first_byte_s=since(exchange.parts[0][0] if exchange.parts else None),
            first_event_s=since(answer.first_event_s),
            first_token_s=since(content[0].at_s if content else None),
            first_output_s=since(spoken.at_s if spoken else None),
            last_choice_s=since(answer.last_choice_s),
            last_token_s=since(content[-1].at_s if content else None),
            events=tuple(
                TokenEvent(event.at_s - zero_s, tokens, event.reasoning)
                for event, tokens in zip(content, counted.per_event, strict=True)
            ),
            empty_events_s=tuple(at_s - zero_s for at_s in answer.empty_s),
            streamed=answer.streamed,
            output_tokens=counted.total,
            counting=counted.source,
            usage=answer.usage,
            finish_reason=answer.finish_reason,
            status=exchange.status,
            request_id=exchange.headers.get("x-request-id") or answer.id,
            failure=self._failure(exchange, answer, reply.reused),
            ledger=answer.ledger,
        )
        return Asked(record, answer.text, tuple(event.texts for event in content))

    def _failure(self, exchange: Exchange, answer: Answer, reused: bool) -> Failure | None:
        match exchange.outcome:
            case Outcome.LATE:
                limit_s = self._target.timeout_s
                return Failure(ErrorKind.TIMEOUT, f"no whole answer within {limit_s:g} s")
            case Outcome.GIVEN_UP:
                return Failure(ErrorKind.CANCELLED, "the run ended while it was under way")
            case Outcome.GARBLED:
                return Failure(ErrorKind.MALFORMED, exchange.detail)
            case Outcome.CUT:
                if answer.failure is not None:
                    return answer.failure
                where = "in the middle of the answer" if exchange.status else "before the answer"
                if reused and exchange.status is None:
                    where += ", on a connection that had been used before"
                return Failure(ErrorKind.DISCONNECTED, f"{exchange.detail} {where}")
        if exchange.status != 200:
            return _status_failure(exchange)
        if answer.failure is not None:
            return answer.failure
        if answer.done and (answer.first_event_s is not None):
            return None
        if exchange.at_end and answer.streamed:
            return Failure(ErrorKind.DISCONNECTED, "the stream ended before the answer did")
        if answer.first_event_s is None:
            media_type = exchange.headers.get("content-type", "none")
            message = f"no choices came, in a body of content-type {media_type}"
            return Failure(ErrorKind.MALFORMED, message)
        message = "the stream ended with neither [DONE] nor a finish reason"
        return Failure(ErrorKind.MALFORMED, message)


def request_head(target: Target, method: str, path: str) -> bytes:
    """A request's line and headers, up to those of its body."""
    endpoint = target.endpoint
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    if endpoint.port != (443 if endpoint.tls else 80):
        host += f":{endpoint.port}"
    headers = {
        "host": host,
        "user-agent": f"netgain-bench/{__version__}",
        "accept": "text/event-stream, application/json",
        "content-type": "application/json",
    }
    if target.api_key is not None:
        headers["authorization"] = f"Bearer {target.api_key}"
    headers |= {name.lower(): value for name, value in target.headers.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"{method} {endpoint.prefix}{path} HTTP/1.1\r\n{lines}".encode()


def _answer(exchange: Exchange) -> Answer:
    """Whatever can be read of it, be it a stream or not."""
    media_type = exchange.headers.get("content-type", "").partition(";")[0].strip().lower()
    if exchange.status == 200 and media_type == "text/event-stream":
        return read_stream(exchange.parts)
    if exchange.status == 200 and exchange.outcome is Outcome.WHOLE:
        return read_whole(exchange.parts)
    return Answer(streamed=False)


def _unasked(intent: Intent, failure: Failure) -> Reply:
    exchange = Exchange()
    exchange.end_s = time.monotonic()
    return Reply(intent, exchange, failure=failure)


def _status_failure(exchange: Exchange) -> Failure:
    status = exchange.status or 0
    message = error_message(b"".join(part for _, part in exchange.parts))
    if status in _REFUSALS:
        kind = ErrorKind.REFUSED
    elif 400 <= status < 500:
        kind = ErrorKind.CLIENT
    elif status >= 500:
        kind = ErrorKind.SERVER
    else:
        kind = ErrorKind.MALFORMED
        place = exchange.headers.get("location")
        message = f"redirected to {place}: give that URL" if place else message
    return Failure(kind, f"{status}: {message}" if message else f"status {status}")


def _uncancel() -> None:
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()
