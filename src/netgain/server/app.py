"""The application: endpoints, who may ask, what failing looks like."""

from collections.abc import Sequence

import msgspec
from fastapi import APIRouter, Depends, FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from netgain.config import ServerSettings
from netgain.errors import NetgainError
from netgain.server.access import ApiKey
from netgain.server.embedding_api import EmbeddingApi
from netgain.server.encoder_service import EncoderService
from netgain.server.endpoints import Endpoint, endpoints
from netgain.server.failures import Failures
from netgain.server.frontend import Frontend
from netgain.server.generation_api import GenerationApi
from netgain.server.identity import IdentityMiddleware
from netgain.server.json_response import json_response
from netgain.server.metrics import ServerMetrics
from netgain.server.model_names import ModelNames
from netgain.server.openapi import describe
from netgain.server.status_api import StatusApi
from netgain.server.token_api import TokenApi

_EXPOSED_HEADERS = ("x-request-id", "traceparent", "server-timing", "retry-after")


def build_app(
    frontend: Frontend,
    metrics: ServerMetrics,
    settings: ServerSettings,
    names: ModelNames,
    encoder: EncoderService | None = None,
) -> ASGIApp:
    """What serves HTTP; every response carries its request's id, a crash's too."""
    served = endpoints(
        GenerationApi(frontend, metrics, settings, names),
        EmbeddingApi(frontend, settings, names, encoder),
        TokenApi(frontend, names, settings.max_body_bytes),
        StatusApi(frontend, metrics, names, settings.ledger_history, encoder),
    )
    # A path with a slash too many is a 404: the redirect would be built from the Host header.
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    guarded = APIRouter(
        dependencies=[Depends(ApiKey(settings.api_key).authorize)], redirect_slashes=False
    )
    for endpoint in served:
        if endpoint.guarded:
            guarded.add_api_route(
                endpoint.path, endpoint.handler, methods=[endpoint.method], response_model=None
            )
    app.include_router(guarded)
    for endpoint in served:
        if not endpoint.guarded:
            app.add_api_route(
                endpoint.path, endpoint.handler, methods=[endpoint.method], response_model=None
            )
    description = Description(served, with_key=settings.api_key is not None)
    app.add_api_route("/openapi.json", description.show, response_model=None)
    failures = Failures(metrics)
    app.add_exception_handler(NetgainError, failures.failed)
    app.add_exception_handler(HTTPException, failures.no_route)
    app.add_exception_handler(Exception, failures.crashed)
    return IdentityMiddleware(_shared(app, settings.cors_origins))


class Description:
    """`/openapi.json`: made when first asked for."""

    def __init__(self, served: Sequence[Endpoint], *, with_key: bool) -> None:
        self._served = served
        self._with_key = with_key
        self._made: bytes | None = None

    async def show(self, _request: Request) -> Response:
        """The description of this API."""
        if self._made is None:
            self._made = msgspec.json.encode(describe(self._served, with_key=self._with_key))
        return json_response(self._made)


def _shared(app: ASGIApp, origins: Sequence[str]) -> ASGIApp:
    """Pages of these origins may read answers; of no others, and by default of none."""
    if not origins:
        return app
    return CORSMiddleware(
        app,
        allow_origins=origins,
        allow_methods=("GET", "POST"),
        allow_headers=("*",),
        expose_headers=_EXPOSED_HEADERS,
    )
