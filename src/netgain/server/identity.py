"""Every response says which request it answers, whatever became of it."""

from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from netgain.server.request_id import request_id
from netgain.server.trace_context import TraceContext

_KEY: Final = "netgain_identity"


class Identity:
    """A request's id, and its place in a trace if it came with one."""

    __slots__ = ("id", "trace")

    def __init__(self, id_: str, trace: TraceContext | None) -> None:
        self.id = id_
        self.trace = trace

    @property
    def trace_id(self) -> str | None:
        """The trace's id, if there is a trace."""
        return None if self.trace is None else self.trace.trace_id


class IdentityMiddleware:
    """Gives each request its `Identity`, and each response its headers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Takes `x-request-id` and `traceparent` in, and sends them out."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        identity = Identity(
            request_id(headers.get("x-request-id")),
            TraceContext.read(headers.get("traceparent")),
        )
        scope["state"][_KEY] = identity

        async def send_named(message: Message) -> None:
            if message["type"] == "http.response.start":
                names = MutableHeaders(scope=message)
                names["x-request-id"] = identity.id
                if identity.trace is not None:
                    names["traceparent"] = identity.trace.header
            await send(message)

        await self._app(scope, receive, send_named)


def identity_of(request: Request) -> Identity:
    """The identity of a request that came through `IdentityMiddleware`."""
    identity = request.scope["state"][_KEY]
    assert isinstance(identity, Identity)
    return identity
