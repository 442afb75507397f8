"""Looks at a server before it is measured: is it there, what it serves, which fields it takes."""

import asyncio
import os
from collections.abc import Mapping
from typing import Final

import msgspec

from netgain.lab.answer import error_message
from netgain.lab.answer_format import ErrorDetail, ErrorFormat
from netgain.lab.client_connection import Exchange, Outcome
from netgain.lab.connections import ConnectError, Connections, OwnLimitError, TlsError
from netgain.lab.conversation import NO_FIELDS, Conversation, Turn
from netgain.lab.header_check import check_api_key, check_header
from netgain.lab.request_body import Dialogue, parse_fields
from netgain.lab.target import (
    Api,
    Dialect,
    Endpoint,
    Target,
    TargetError,
    UnauthorizedError,
    UnreachableError,
    UntrustedError,
    WrongModelError,
    WrongPathError,
    parse_url,
)
from netgain.lab.transport import Intent, Reply, Transport, request_head

_LISTING_S: Final = 30.0
_PROBE: Final = "Hello"


class _Card(msgspec.Struct, frozen=True):
    id: str
    owned_by: str | None = None


class _Cards(msgspec.Struct, frozen=True):
    data: list[_Card]


def find_target(
    url: str,
    *,
    api: Api = Api.CHAT,
    model: str | None = None,
    api_key: str | None = None,
    headers: Mapping[str, str] | None = None,
    fields: Mapping[str, object] | None = None,
    stream: bool = True,
    timeout_s: float = 600.0,
    connect_timeout_s: float = 10.0,
) -> Target:
    """A target that answers: its models were listed and it was asked for one token.

    The model is the first one listed, if none is named. Without an `api_key` the environment's
    NETGAIN_API_KEY is sent, or, over https only, OPENAI_API_KEY. Optional fields that the server
    refuses are left out from then on (`Target.dialect`). Raises the `TargetError`s, and
    `ConfigurationError` for what cannot be sent.
    """
    endpoint = parse_url(url)
    if api_key is None:
        api_key = os.environ.get("NETGAIN_API_KEY")
    if api_key is None and endpoint.tls:
        api_key = os.environ.get("OPENAI_API_KEY")
    if api_key is not None:
        check_api_key(api_key)
    for name, value in (headers or {}).items():
        check_header(name, value)
    extra = msgspec.Raw(msgspec.json.encode(fields)) if fields else NO_FIELDS
    parse_fields(extra, "the extra fields")
    target = Target(
        endpoint=endpoint,
        model=model or "",
        api=api,
        api_key=api_key,
        headers=dict(headers or {}),
        fields=extra,
        stream=stream,
        timeout_s=timeout_s,
        connect_timeout_s=connect_timeout_s,
    )
    return asyncio.run(_find(target))


async def _find(target: Target) -> Target:
    cards = await _listed(target)
    ours = any(card.owned_by == "netgain" for card in cards)
    names = [card.id for card in cards]
    model = target.model or next(iter(names), "")
    if not model:
        raise WrongModelError(f"{target.endpoint.url} lists no model: name one with --model")
    if names and model not in names:
        raise WrongModelError(
            f"{target.endpoint.url} serves no model {model!r}; it serves {', '.join(names)}"
        )
    dialect = Dialect(running_usage=target.stream, ledger=ours)
    return await _probed(msgspec.structs.replace(target, model=model, dialect=dialect))


async def _listed(target: Target) -> list[_Card]:
    """What is served; nothing where there is no such list but a model was named."""
    endpoint = target.endpoint
    exchange = await _get(target, "/v1/models")
    _check_answered(exchange, endpoint, _LISTING_S)
    if exchange.status in (404, 405) and target.model:
        return []
    if exchange.status != 200:
        raise _refused(endpoint, "/v1/models", exchange)
    try:
        return msgspec.json.decode(b"".join(part for _, part in exchange.parts), type=_Cards).data
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if target.model:
            return []
        raise WrongPathError(
            f"{endpoint.url}/v1/models lists no models: give the base URL of an "
            "OpenAI-compatible server"
        ) from error


async def _get(target: Target, path: str) -> Exchange:
    connections = Connections(target.endpoint, target.connect_timeout_s)
    exchange = Exchange()
    try:
        connection = await connections.take()
        request = request_head(target, "GET", path) + b"content-length: 0\r\n\r\n"
        await connection.exchange(request, _LISTING_S, exchange)
        connection.close()
    except TlsError as error:
        raise UntrustedError(
            f"{target.endpoint.url}: {error}; SSL_CERT_FILE names a file of certificates to trust "
            "instead, http:// does without TLS"
        ) from error
    except OwnLimitError as error:
        raise TargetError(f"cannot ask {target.endpoint.url}: {error}") from error
    except ConnectError as error:
        raise _unreachable(target.endpoint, str(error)) from error
    return exchange


async def _probed(target: Target) -> Target:
    """Asks for one token, leaving out one more refused field each time."""
    transport = Transport(target, 0.0)
    try:
        while True:
            reply = await _ask_for_one_token(transport, target)
            exchange = reply.exchange
            if exchange.status not in (400, 422):
                break
            body = b"".join(part for _, part in exchange.parts)
            dialect = _without_refused(target, body)
            if dialect is None:
                raise _refused(target.endpoint, target.api.path, exchange)
            target = msgspec.structs.replace(target, dialect=dialect)
        asked = transport.read(reply)
    finally:
        transport.close()
    if reply.failure is not None:
        raise _unreachable(target.endpoint, reply.failure.message)
    _check_answered(exchange, target.endpoint, target.timeout_s)
    if exchange.status != 200:
        raise _refused(target.endpoint, target.api.path, exchange)
    if asked.record.failure is not None:
        raise WrongPathError(
            f"{target.endpoint.url}{target.api.path} does not answer as an OpenAI-compatible "
            f"server: {asked.record.failure.message}"
        )
    running = target.dialect.running_usage and asked.record.counting == "usage"
    dialect = msgspec.structs.replace(target.dialect, running_usage=running)
    return msgspec.structs.replace(target, dialect=dialect)


async def _ask_for_one_token(transport: Transport, target: Target) -> Reply:
    turn = Turn(text=_PROBE, max_tokens=1, exact_length=target.dialect.exact_length)
    conversation = Conversation(request_class="probe", turns=(turn,))
    intent = Intent(
        index=0,
        request_class="probe",
        conversation=0,
        turn=0,
        intended_s=0.0,
        prompt_tokens=None,
        max_tokens=1,
    )
    return await transport.ask(intent, Dialogue(target, conversation).body(0))


def _without_refused(target: Target, body: bytes) -> Dialect | None:
    """The dialect without the field that an error names; else without the rarest. None: it has no
    optional field left.
    """
    dialect = target.dialect
    replace = msgspec.structs.replace
    left: list[tuple[tuple[str, ...], Dialect]] = []
    if target.stream and dialect.running_usage:
        left.append((("continuous_usage_stats",), replace(dialect, running_usage=False)))
    if dialect.exact_length:
        left.append((("ignore_eos", "min_tokens"), replace(dialect, exact_length=False)))
    if dialect.limit_field == "max_tokens":
        left.append((("max_tokens",), replace(dialect, limit_field="max_completion_tokens")))
    if target.stream and dialect.usage:
        without = replace(dialect, usage=False, running_usage=False)
        left.append((("stream_options",), without))
    if dialect.ledger:
        left.append((("netgain",), replace(dialect, ledger=False)))
    said = f"{_param(body)} {error_message(body)}"
    named = [simpler for names, simpler in left if any(name in said for name in names)]
    return next(iter(named or [simpler for _, simpler in left]), None)


def _param(body: bytes) -> str:
    """The field an error says it is about."""
    try:
        error = msgspec.json.decode(body, type=ErrorFormat).error
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    return (error.param or "") if isinstance(error, ErrorDetail) else ""


def _check_answered(exchange: Exchange, endpoint: Endpoint, within_s: float) -> None:
    """Raises `UnreachableError` when what came was no whole answer."""
    if exchange.outcome is Outcome.LATE:
        raise UnreachableError(
            f"{endpoint.url} takes connections but gave no whole answer within {within_s:g} s: is "
            "it still loading, or stuck?"
        )
    if exchange.outcome is Outcome.GARBLED:
        raise WrongPathError(f"what answers at {endpoint.url} speaks no HTTP/1.1: check the port")
    if exchange.outcome is Outcome.CUT:
        hint = "" if endpoint.tls else "; does it want https://?"
        raise _unreachable(endpoint, f"the connection was {exchange.detail}{hint}")


def _unreachable(endpoint: Endpoint, why: str) -> UnreachableError:
    return UnreachableError(
        f"nobody answers at {endpoint.url} ({why}): start the server, or check host and port"
    )


def _refused(endpoint: Endpoint, path: str, exchange: Exchange) -> TargetError:
    """The typed error for a status that is not 200."""
    status = exchange.status or 0
    message = error_message(b"".join(part for _, part in exchange.parts))
    where = f"{endpoint.url}{path}"
    if status in (401, 403):
        return UnauthorizedError(
            f"{where} answers {status} ({message}): give the right key with --api-key"
        )
    if status in (404, 405):
        if path != "/v1/models" and "model" in message.lower():
            return WrongModelError(f"{where} answers {status}: {message}")
        return WrongPathError(
            f"{where} answers {status} ({message}): give the base URL of an OpenAI-compatible "
            "server, or the other API"
        )
    if 300 <= status < 400:
        place = exchange.headers.get("location", "nowhere")
        return WrongPathError(f"{where} redirects to {place} ({status}): give that server's URL")
    return TargetError(f"{where} answers {status}: {message or 'no reason given'}")
