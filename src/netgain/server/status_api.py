"""The handlers of what one looks at beside generating: models, ledgers, health, metrics."""

import time
from typing import Final

import msgspec
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import Request
from starlette.responses import Response

from netgain.engine.client import EngineState
from netgain.server.encoder_service import EncoderService
from netgain.server.errors import ApiError
from netgain.server.frontend import Frontend
from netgain.server.json_response import json_response
from netgain.server.metrics import ServerMetrics
from netgain.server.model_names import ModelNames
from netgain.server.responses import (
    Health,
    ModelCard,
    ModelList,
    PrefixCacheAnswer,
    Readiness,
    ledger_part,
)

_ID_PREFIXES: Final = ("chatcmpl-", "cmpl-")


class StatusApi:
    """Answers from what the frontend knows; only `reset_prefix_cache` changes something."""

    def __init__(
        self,
        frontend: Frontend,
        metrics: ServerMetrics,
        names: ModelNames,
        ledger_history: int,
        encoder: EncoderService | None,
    ) -> None:
        self._frontend = frontend
        self._names = names
        self._encoder = encoder
        self._ledger_history = ledger_history
        self._created = int(time.time())
        self._registry = metrics.registry()

    async def models(self, _request: Request) -> Response:
        """What is served, one entry a name."""
        cards = [self._card(name) for name in self._names.all]
        return json_response(msgspec.json.encode(ModelList(cards)))

    async def model(self, request: Request) -> Response:
        """One served model. 404 for any other."""
        name = self._names.known(request.path_params["name"])
        return json_response(msgspec.json.encode(self._card(name)))

    async def ledger(self, request: Request) -> Response:
        """An ended request's ledger, delivery at the socket included.

        404 for unknown and forgotten ids, 409 while the request runs. An id may carry the prefix
        it has in the response body.
        """
        book = self._frontend.book
        asked = str(request.path_params["id"])
        # A client's own id may begin like one of ours: as it stands it comes first.
        named = (asked, *map(asked.removeprefix, _ID_PREFIXES))
        id_ = next((one for one in named if book.knows(one)), asked)
        if book.is_running(id_):
            raise ApiError(
                409,
                f"request {id_!r} is still running; ask again when it has ended",
                code="request_running",
                headers=(("retry-after", "1"),),
            )
        ledgers = book.get(id_)
        if ledgers is None:
            raise ApiError(
                404,
                f"no ledger for request {id_[:128]!r}: unknown, or among the forgotten "
                f"(the last {self._ledger_history} are kept)",
                code="ledger_not_found",
            )
        part = ledger_part(ledgers)
        return json_response(msgspec.json.encode(part.ledger if part.ledger else part))

    async def health(self, _request: Request) -> Response:
        """200 while this process serves and the engine is not dead; 503 otherwise."""
        state = self._frontend.engine.state
        status = 503 if state is EngineState.DEAD else 200
        return json_response(msgspec.json.encode(Health(state)), status)

    async def ready(self, _request: Request) -> Response:
        """200 once requests are served; 503, with the parts loaded so far, until then."""
        engine = self._frontend.engine
        status = 200 if engine.state is EngineState.READY else 503
        return json_response(msgspec.json.encode(Readiness(engine.state, engine.loaded)), status)

    async def show_metrics(self, _request: Request) -> Response:
        """Prometheus' text format."""
        return Response(generate_latest(self._registry), media_type=CONTENT_TYPE_LATEST)

    async def reset_prefix_cache(self, _request: Request) -> Response:
        """Forgets every cached block that no running request holds; a body is not looked at."""
        self._frontend.limits()
        blocks = await self._frontend.engine.reset_prefix_cache()
        return json_response(msgspec.json.encode(PrefixCacheAnswer(blocks)))

    def _card(self, name: str) -> ModelCard:
        if self._encoder is not None and name == self._names.encoder:
            return ModelCard(name, self._created, self._encoder.encoder.config.max_tokens)
        info = self._frontend.engine.info
        return ModelCard(name, self._created, None if info is None else info.max_model_len)
