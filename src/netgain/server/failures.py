"""What goes wrong in a handler, as clients expect it."""

from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from netgain.server.errors import ApiError, as_api_error, internal
from netgain.server.json_response import error_response
from netgain.server.metrics import ServerMetrics

_MAX_SHOWN_CHARS: Final = 128


class Failures:
    """Turns errors into responses, and counts them."""

    def __init__(self, metrics: ServerMetrics) -> None:
        self._metrics = metrics

    async def failed(self, _request: Request, error: Exception) -> Response:
        """Any error that a handler raised on purpose."""
        return self._response(as_api_error(error))

    async def crashed(self, _request: Request, _error: Exception) -> Response:
        """A bug: a 500 for the client; uvicorn logs the traceback, frames without values."""
        return self._response(internal())

    async def no_route(self, request: Request, error: Exception) -> Response:
        """404 and 405 of the router."""
        assert isinstance(error, HTTPException)
        path = request.url.path[:_MAX_SHOWN_CHARS]
        words = {
            404: f"there is no {path}; /openapi.json lists what there is",
            405: f"{request.method} is not allowed on {path}; /openapi.json lists what is",
        }.get(error.status_code, str(error.detail))
        headers = tuple((error.headers or {}).items())
        return self._response(ApiError(error.status_code, words, headers=headers))

    def _response(self, error: ApiError) -> Response:
        self._metrics.http_errors[error.status] += 1
        return error_response(error)
