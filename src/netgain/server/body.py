"""From an HTTP request to a JSON object: bounded, typed, strict."""

from typing import Final

import msgspec
from starlette.requests import Request

from netgain.server.errors import ApiError, bad_request

_JSON: Final = msgspec.json.Decoder()


async def read_object(request: Request, max_bytes: int) -> dict[str, object]:
    """The JSON object in a request's body.

    Raises `ApiError`: 400 for anything that is not exactly one JSON object in UTF-8 (NaN, lone
    surrogates and trailing text included), 413 for more than `max_bytes`.
    """
    _check_headers(request)
    body = await _read(request, max_bytes)
    if not body:
        raise bad_request("the body is empty; send a JSON object")
    try:
        value: object = _JSON.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request(f"the body is not valid JSON: {error}") from error
    except RecursionError as error:
        raise bad_request("the body is nested too deeply") from error
    if not isinstance(value, dict):
        raise bad_request(f"the body must be a JSON object, not {json_type(value)}")
    return value


def json_type(value: object) -> str:
    """A value's type in JSON's words."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"


def _check_headers(request: Request) -> None:
    kind = request.headers.get("content-type", "")
    media_type = kind.partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise bad_request(
            f"content-type must be application/json, not {media_type!r}"
            if media_type
            else "the content-type header is missing; it must be application/json"
        )
    encoding = request.headers.get("content-encoding", "identity").lower()
    if encoding != "identity":
        raise bad_request(f"content-encoding {encoding!r} is not supported; send plain JSON")


async def _read(request: Request, max_bytes: int) -> bytes:
    declared = request.headers.get("content-length")
    if declared is not None and declared.isdigit() and int(declared) > max_bytes:
        raise _too_large(max_bytes)
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ApiError(499, "the client went away", code="client_disconnected")
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > max_bytes:
            raise _too_large(max_bytes)
        chunks.append(chunk)
        if not message.get("more_body", False):
            return b"".join(chunks)


def _too_large(max_bytes: int) -> ApiError:
    return ApiError(
        413,
        f"the body is larger than {max_bytes:,} bytes: send it in several requests, or raise "
        "--max-body",
        code="request_too_large",
    )
