"""JSON responses that tell their exchange when the last byte was written."""

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from netgain.server.errors import ApiError
from netgain.server.exchange import Exchange
from netgain.server.server_timing import server_timing


class ExchangeResponse(Response):
    """The whole answer of an exchange; closes it once written."""

    media_type = "application/json"

    def __init__(self, body: bytes, exchange: Exchange) -> None:
        super().__init__(body, headers={"server-timing": server_timing(exchange.generations)})
        self._exchange = exchange

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends, then closes the exchange."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._exchange.close()


def json_response(body: bytes, status: int = 200) -> Response:
    """A plain JSON response."""
    return Response(body, status, media_type="application/json")


def error_response(error: ApiError) -> Response:
    """An error as OpenAI clients expect it."""
    return Response(error.body(), error.status, dict(error.headers), "application/json")
