"""Every endpoint, once: the routes and the description of the API are made from this."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from netgain.ledger.record import LedgerJSON
from netgain.server.embedding_api import EmbeddingApi
from netgain.server.embedding_requests import EmbeddingList, EmbeddingRequest
from netgain.server.errors import ErrorBody
from netgain.server.fields import Fields
from netgain.server.generation_api import GenerationApi
from netgain.server.protocol import ChatRequest, CompletionRequest
from netgain.server.responses import (
    ChatChunk,
    ChatCompletion,
    Completion,
    CompletionChunk,
    Health,
    LedgerPart,
    ModelCard,
    ModelList,
    PrefixCacheAnswer,
    Readiness,
)
from netgain.server.status_api import StatusApi
from netgain.server.token_api import TokenApi
from netgain.server.token_requests import (
    Detokenized,
    DetokenizeRequest,
    Tokenized,
    TokenizeRequest,
)

JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"
TEXT: Final = "text/plain"

_READING: Final = (400, 413)
_NO_ENGINE: Final = (503,)
_GENERATING: Final = (400, 404, 408, 413, 429, 500, 503)

Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One method on one path.

    `path` as the router reads it; `answers`: their types by status and media type (none: text), and
    `errors` the statuses of which the body is an error; a guarded one asks for the API key.
    """

    method: str
    path: str
    handler: Handler
    answers: Mapping[tuple[int, str], tuple[type, ...]]
    body: type[Fields] | None = None
    errors: tuple[int, ...] = ()
    guarded: bool = True
    parameters: Mapping[str, str] = field(default_factory=dict)

    @property
    def shown_path(self) -> str:
        """The path as a description of the API writes it."""
        return self.path.replace(":path}", "}")

    @property
    def summary(self) -> str:
        """What it does, in a sentence: the first of its handler's docstring."""
        return (self.handler.__doc__ or "").partition("\n")[0].strip()


def endpoints(
    generation: GenerationApi, embedding: EmbeddingApi, tokens: TokenApi, status: StatusApi
) -> tuple[Endpoint, ...]:
    """All of them."""
    return (
        Endpoint(
            "POST",
            "/v1/completions",
            generation.completions,
            {(200, JSON): (Completion,), (200, EVENTS): (CompletionChunk, ErrorBody)},
            CompletionRequest,
            _GENERATING,
        ),
        Endpoint(
            "POST",
            "/v1/chat/completions",
            generation.chat,
            {(200, JSON): (ChatCompletion,), (200, EVENTS): (ChatChunk, ErrorBody)},
            ChatRequest,
            _GENERATING,
        ),
        Endpoint(
            "POST",
            "/v1/embeddings",
            embedding.embeddings,
            {(200, JSON): (EmbeddingList,)},
            EmbeddingRequest,
            _GENERATING,
        ),
        Endpoint(
            "POST",
            "/tokenize",
            tokens.tokenize,
            {(200, JSON): (Tokenized,)},
            TokenizeRequest,
            (404, *_READING, *_NO_ENGINE),
        ),
        Endpoint(
            "POST",
            "/detokenize",
            tokens.detokenize,
            {(200, JSON): (Detokenized,)},
            DetokenizeRequest,
            (404, *_READING, *_NO_ENGINE),
        ),
        Endpoint("GET", "/v1/models", status.models, {(200, JSON): (ModelList,)}),
        Endpoint(
            "GET",
            "/v1/models/{name:path}",
            status.model,
            {(200, JSON): (ModelCard,)},
            errors=(404,),
            parameters={"name": "one of the served names"},
        ),
        Endpoint(
            "GET",
            "/v1/requests/{id}/ledger",
            status.ledger,
            {(200, JSON): (LedgerJSON, LedgerPart)},
            errors=(404, 409),
            parameters={"id": "of the `x-request-id` header, or of the answer's body"},
        ),
        Endpoint(
            "POST",
            "/reset_prefix_cache",
            status.reset_prefix_cache,
            {(200, JSON): (PrefixCacheAnswer,)},
            errors=_NO_ENGINE,
        ),
        Endpoint(
            "GET",
            "/health",
            status.health,
            {(200, JSON): (Health,), (503, JSON): (Health,)},
            guarded=False,
        ),
        Endpoint(
            "GET",
            "/ready",
            status.ready,
            {(200, JSON): (Readiness,), (503, JSON): (Readiness,)},
            guarded=False,
        ),
        Endpoint("GET", "/metrics", status.show_metrics, {(200, TEXT): ()}, guarded=False),
    )
