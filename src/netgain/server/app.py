"""The routes."""

import asyncio
import hmac
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import msgspec
from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import Response
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.exceptions import HTTPException

from netgain._version import __version__
from netgain.config import ServerSettings
from netgain.engine.client import EngineState
from netgain.engine.sampling_params import SamplingParams
from netgain.errors import NetgainError
from netgain.server.body import read_object
from netgain.server.errors import (
    ApiError,
    as_api_error,
    internal,
    model_not_found,
    unauthorized,
)
from netgain.server.event_stream import ChunkFormat, EventStream, StreamOptions
from netgain.server.exchange import Exchange
from netgain.server.frontend import Frontend, Job
from netgain.server.generation import Arrival, Generation
from netgain.server.json_response import ExchangeResponse, error_response, json_response
from netgain.server.metrics import ServerMetrics
from netgain.server.protocol import ChatRequest, CompletionRequest, PromptText
from netgain.server.request_id import request_id
from netgain.server.responses import (
    AssistantMessage,
    ChatChoice,
    ChatCompletion,
    Completion,
    CompletionChoice,
    ModelCard,
    ModelList,
    ledger_part,
    usage_of,
)
from netgain.server.salt import cache_salt

_ID_PREFIXES: Final = ("chatcmpl-", "cmpl-")


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request as read: its id in the response, its body, and what is to be generated."""

    id: str
    body: CompletionRequest | ChatRequest
    job: Job


class Api:
    """The handlers and what they share."""

    def __init__(
        self, frontend: Frontend, metrics: ServerMetrics, settings: ServerSettings, model_name: str
    ) -> None:
        self.frontend = frontend
        self.metrics = metrics
        self.settings = settings
        self.model_name = model_name
        self.created = int(time.time())
        self.registry = metrics.registry()

    async def authorize(self, request: Request) -> None:
        """Raises `ApiError` (401) unless the request brings the API key, where there is one."""
        key = self.settings.api_key
        if key is None:
            return
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(
            given.strip().encode(), key.encode()
        ):
            raise unauthorized()

    async def completions(self, request: Request) -> Response:
        """OpenAI's text completion; `netgain` holds options of netgain's own."""
        return await self._answer(request, self._completion_job)

    async def chat(self, request: Request) -> Response:
        """OpenAI's chat completion; `netgain` holds options of netgain's own."""
        return await self._answer(request, self._chat_job)

    async def models(self) -> Response:
        """What is served."""
        return json_response(msgspec.json.encode(ModelList([self._card()])))

    async def model(self, name: str) -> Response:
        """One served model. 404 for any other."""
        self._check_model(name)
        return json_response(msgspec.json.encode(self._card()))

    async def ledger(self, id_: str) -> Response:
        """An ended request's ledger, delivery at the socket included.

        404 for unknown and forgotten ids, 409 while the request runs. An id may carry the prefix
        it has in the response body.
        """
        for prefix in _ID_PREFIXES:
            id_ = id_.removeprefix(prefix)
        book = self.frontend.book
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
                f"no ledger for request {id_!r}: unknown, or among the forgotten "
                f"(the last {self.settings.ledger_history} are kept)",
                code="ledger_not_found",
            )
        part = ledger_part(ledgers)
        return json_response(msgspec.json.encode(part.ledger if part.ledger else part))

    async def health(self) -> Response:
        """200 while this process serves and the engine is not dead; 503 otherwise."""
        state = self.frontend.engine.state
        status = 503 if state is EngineState.DEAD else 200
        return json_response(msgspec.json.encode({"engine": state}), status)

    async def ready(self) -> Response:
        """200 once requests are served; 503, with the parts loaded so far, until then."""
        engine = self.frontend.engine
        status = 200 if engine.state is EngineState.READY else 503
        parts = {"status": engine.state, "loaded": engine.loaded}
        return json_response(msgspec.json.encode(parts), status)

    async def show_metrics(self) -> Response:
        """Prometheus' text format."""
        return Response(generate_latest(self.registry), media_type=CONTENT_TYPE_LATEST)

    async def reset_prefix_cache(self) -> Response:
        """Forgets every cached block that no running request holds."""
        self.frontend.limits()
        blocks = await self.frontend.engine.reset_prefix_cache()
        return json_response(msgspec.json.encode({"blocks": blocks}))

    async def failed(self, request: Request, error: Exception) -> Response:
        """Any error that a handler raised, as OpenAI clients expect it."""
        failure = as_api_error(error)
        self.metrics.http_errors[failure.status] += 1
        return error_response(failure, _id_of(request))

    async def crashed(self, request: Request, _error: Exception) -> Response:
        """A bug: a 500 for the client; uvicorn logs the traceback, frames without values."""
        self.metrics.http_errors[500] += 1
        return error_response(internal(), _id_of(request))

    async def no_route(self, request: Request, error: Exception) -> Response:
        """404 and 405 of the router."""
        assert isinstance(error, HTTPException)
        words = {
            404: f"there is no {request.url.path}; /openapi.json lists what there is",
            405: f"{request.method} is not allowed on {request.url.path}",
        }.get(error.status_code, str(error.detail))
        self.metrics.http_errors[error.status_code] += 1
        headers = tuple((error.headers or {}).items())
        return error_response(ApiError(error.status_code, words, headers=headers))

    async def _answer(
        self, request: Request, read: Callable[[Exchange, dict[str, object]], "_Asked"]
    ) -> Response:
        """Opens an exchange; the response closes it, or whatever fails before there is one."""
        id_ = request_id(request.headers.get("x-request-id"), self.frontend.book)
        exchange = Exchange(request, id_, self.frontend)
        request.state.netgain_request_id = id_
        try:
            asked = read(exchange, await read_object(request, self.settings.max_body_bytes))
            await exchange.open(asked.job)
            if asked.body.stream:
                return self._stream(exchange, asked)
            texts = await _gather_texts(exchange.generations)
            failure = exchange.failure()
            if failure is not None:
                raise failure
            return ExchangeResponse(self._whole(exchange, asked, texts), exchange)
        except BaseException:
            exchange.close()
            raise

    def _completion_job(self, exchange: Exchange, fields: dict[str, object]) -> "_Asked":
        body = CompletionRequest.parse(fields)
        self._check_model(body.model)
        prompts = body.prompts(self.frontend.limits().max_prompt_tokens)
        sampling = body.sampling(body.limit())
        return self._asked(exchange, body, prompts, sampling, "cmpl")

    def _chat_job(self, exchange: Exchange, fields: dict[str, object]) -> "_Asked":
        body = ChatRequest.parse(fields)
        self._check_model(body.model)
        sampling = body.sampling(body.limit())
        # Rendering the template counts as tokenising: the request is valid from here on.
        asked = self._asked(exchange, body, (), sampling, "chatcmpl")
        prompt = self.frontend.text.render_chat(body.messages)
        return replace(asked, job=replace(asked.job, prompts=(prompt,), templated=True))

    def _asked(
        self,
        exchange: Exchange,
        body: CompletionRequest | ChatRequest,
        prompts: tuple[PromptText, ...],
        sampling: SamplingParams,
        prefix: str,
    ) -> "_Asked":
        job = Job(
            exchange.id,
            prompts,
            sampling,
            Arrival(exchange.times.first_byte_ns, time.monotonic_ns()),
            timeout_s=body.netgain.timeout_s or self.settings.request_timeout_s,
            salt=cache_salt(self.settings.api_key, body.netgain.cache_salt),
        )
        return _Asked(f"{prefix}-{exchange.id}", body, job)

    def _stream(self, exchange: Exchange, asked: "_Asked") -> EventStream:
        body = asked.body
        kind = "chat.completion.chunk" if isinstance(body, ChatRequest) else "text_completion"
        created = int(time.time())
        return EventStream(
            exchange,
            ChunkFormat(kind, asked.id, self.model_name, created, body.include_usage),
            StreamOptions(body.include_usage, body.netgain.ledger),
            self.metrics,
        )

    def _whole(self, exchange: Exchange, asked: "_Asked", texts: list[str]) -> bytes:
        generations = exchange.generations
        usage = usage_of(generations)
        created = int(time.time())
        netgain = None
        if asked.body.netgain.ledger:
            now_ns = time.monotonic_ns()
            netgain = ledger_part(exchange.ledgers(now_ns, now_ns))
        if isinstance(asked.body, ChatRequest):
            chat_choice = ChatChoice(0, AssistantMessage(texts[0]), generations[0].finish_reason)
            return msgspec.json.encode(
                ChatCompletion(
                    asked.id,
                    created,
                    self.model_name,
                    [chat_choice],
                    usage,
                    "chat.completion",
                    netgain,
                )
            )
        choices = [
            CompletionChoice(index, text, generation.finish_reason)
            for index, (text, generation) in enumerate(zip(texts, generations, strict=True))
        ]
        return msgspec.json.encode(
            Completion(
                asked.id, created, self.model_name, choices, usage, "text_completion", netgain
            )
        )

    def _check_model(self, name: str | None) -> None:
        if name is not None and name != self.model_name:
            raise model_not_found(name, self.model_name)

    def _card(self) -> ModelCard:
        info = self.frontend.engine.info
        return ModelCard(
            self.model_name, self.created, None if info is None else info.max_model_len
        )


def build_app(api: Api) -> FastAPI:
    """The application."""
    app = FastAPI(title="netgain", version=__version__, docs_url=None, redoc_url=None)
    guarded = APIRouter(dependencies=[Depends(api.authorize)])
    guarded.add_api_route(
        "/v1/completions",
        api.completions,
        methods=["POST"],
        response_model=None,
        openapi_extra=_body_schema(CompletionRequest.model_json_schema()),
    )
    guarded.add_api_route(
        "/v1/chat/completions",
        api.chat,
        methods=["POST"],
        response_model=None,
        openapi_extra=_body_schema(ChatRequest.model_json_schema()),
    )
    guarded.add_api_route("/v1/models", api.models, response_model=None)
    guarded.add_api_route("/v1/models/{name:path}", api.model, response_model=None)
    guarded.add_api_route("/v1/requests/{id_}/ledger", api.ledger, response_model=None)
    guarded.add_api_route(
        "/reset_prefix_cache", api.reset_prefix_cache, methods=["POST"], response_model=None
    )
    app.include_router(guarded)
    app.add_api_route("/health", api.health, response_model=None)
    app.add_api_route("/ready", api.ready, response_model=None)
    app.add_api_route("/metrics", api.show_metrics, response_model=None)
    app.add_exception_handler(NetgainError, api.failed)
    app.add_exception_handler(HTTPException, api.no_route)
    app.add_exception_handler(Exception, api.crashed)
    return app


def _body_schema(schema: dict[str, object]) -> dict[str, object]:
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


async def _gather_texts(generations: tuple[Generation, ...]) -> list[str]:
    if len(generations) == 1:
        return [await _whole_text(generations[0])]
    tasks = [asyncio.ensure_future(_whole_text(generation)) for generation in generations]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


async def _whole_text(generation: Generation) -> str:
    pieces: list[str] = []
    while not generation.ended:
        pieces.append(await generation.advance())
        generation.shown(time.monotonic_ns())
    return "".join(pieces)


def _id_of(request: Request) -> str | None:
    """The request's id, where it got far enough to have one."""
    id_ = getattr(request.state, "netgain_request_id", None)
    return id_ if isinstance(id_, str) else None
