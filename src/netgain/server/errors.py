"""Errors as OpenAI clients expect them, and which status each kind gets."""

from collections.abc import Sequence
from typing import Final

import msgspec

from netgain.errors import EngineDeadError, InvalidRequestError, NetgainError

RETRY_AFTER_S: Final = 1
RESTART_RETRY_AFTER_S: Final = 5
_MAX_SHOWN_CHARS: Final = 64


class ErrorDetail(msgspec.Struct, frozen=True):
    """What went wrong and what to do; `param` names the field at fault."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(msgspec.Struct, frozen=True):
    """The body of every error response."""

    error: ErrorDetail


class ApiError(NetgainError):
    """An error with its HTTP form."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.detail = ErrorDetail(message, kind, param, code)
        self.headers = headers

    def body(self) -> bytes:
        """The response body."""
        return msgspec.json.encode(ErrorBody(self.detail))


def bad_request(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    """400: the request itself is at fault."""
    return ApiError(400, message, param=param, code=code)


def model_not_found(name: str, served: Sequence[str]) -> ApiError:
    """404, as OpenAI answers for an unknown model."""
    known = ", ".join(map(repr, served))
    return ApiError(
        404,
        f"the model {name[:_MAX_SHOWN_CHARS]!r} does not exist; this server serves {known}",
        param="model",
        code="model_not_found",
    )


def unauthorized() -> ApiError:
    """401: no API key, or not the right one."""
    return ApiError(
        401,
        "wrong or missing API key; send it as 'Authorization: Bearer <key>'",
        code="invalid_api_key",
        headers=(("www-authenticate", "Bearer"),),
    )


def overloaded(waiting: int, limit: int) -> ApiError:
    """429: the queue is full."""
    return ApiError(
        429,
        f"{waiting} requests are waiting and at most {limit} may; try again later, "
        "or raise --max-queue",
        kind="rate_limit_error",
        code="queue_full",
        headers=(("retry-after", str(RETRY_AFTER_S)),),
    )


def unavailable(message: str, code: str, retry_after_s: int = RESTART_RETRY_AFTER_S) -> ApiError:
    """503: not now."""
    return ApiError(
        503,
        message,
        kind="service_unavailable",
        code=code,
        headers=(("retry-after", str(retry_after_s)),),
    )


def deadline_exceeded() -> ApiError:
    """408: the request's own deadline passed; the official client must not simply repeat it.

    Not a 5xx: nothing failed, the client (or the operator) allowed too little time.
    """
    return ApiError(
        408,
        "the request's deadline passed before it was finished; raise netgain.timeout_s "
        "(or --request-timeout), or ask for fewer tokens",
        kind="timeout_error",
        code="deadline_exceeded",
        headers=(("x-should-retry", "false"),),
    )


def internal(
    message: str = "netgain failed on this request; the server's log says more",
) -> ApiError:
    """500: a bug."""
    return ApiError(500, message, kind="internal_error", code="internal_error")


def as_api_error(error: Exception) -> ApiError:
    """The HTTP form of any error that answering a request can raise."""
    match error:
        case ApiError():
            return error
        case InvalidRequestError():
            return bad_request(str(error), error.param)
        case EngineDeadError():
            said = str(error)
            advice = "" if "try again" in said else "; try again shortly"
            return unavailable(f"{said}{advice}", "engine_unavailable")
        case _:
            return internal()
