"""The handler of `/v1/embeddings`: mean-pooled hidden states of the served model."""

import asyncio
import base64
import struct
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from netgain.config import ServerSettings
from netgain.engine.sampling_params import SamplingParams
from netgain.server.body import read_object
from netgain.server.embedding_requests import (
    Embedding,
    EmbeddingList,
    EmbeddingRequest,
    EmbeddingUsage,
)
from netgain.server.errors import bad_request
from netgain.server.exchange import Exchange
from netgain.server.frontend import Frontend, Job
from netgain.server.generation import Arrival, Generation
from netgain.server.json_response import ExchangeResponse
from netgain.server.model_names import ModelNames
from netgain.server.salt import cache_salt

_AT_ONCE: Final = 32
"""Inputs in the engine at a time: a large list takes no more places than that."""


class EmbeddingApi:
    """Reads the inputs, has the engine pool them, and answers in their order."""

    def __init__(self, frontend: Frontend, settings: ServerSettings, names: ModelNames) -> None:
        self._frontend = frontend
        self._settings = settings
        self._names = names

    async def embeddings(self, request: Request) -> Response:
        """OpenAI's embeddings, by the served model: mean over the tokens, of length 1."""
        exchange = Exchange(request, self._frontend)
        try:
            fields = await read_object(request, self._settings.max_body_bytes)
            body = EmbeddingRequest.checked(fields)
            model = self._names.check(body.model)
            await self._embed(exchange, self._job(exchange, body), body.dimensions)
            return ExchangeResponse(_answer(exchange.generations, body, model), exchange)
        except BaseException:
            exchange.close()
            raise

    def _job(self, exchange: Exchange, body: EmbeddingRequest) -> Job:
        inputs = body.inputs(self._frontend.limits().max_prompt_tokens)
        return Job(
            exchange.id,
            inputs,
            SamplingParams(),
            Arrival(exchange.times.first_byte_ns, time.monotonic_ns()),
            field="input",
            pooling=True,
            timeout_s=self._settings.request_timeout_s,
            salt=cache_salt(self._settings.api_key, ""),
            trace_id=exchange.trace_id,
        )

    async def _embed(self, exchange: Exchange, job: Job, dimensions: int | None) -> None:
        for start in range(0, len(job.prompts), _AT_ONCE):
            part = replace(job, prompts=job.prompts[start : start + _AT_ONCE])
            opened = await exchange.open(part)
            await asyncio.gather(*map(_ended, opened))
            failure = exchange.failure()
            if failure is not None:
                raise failure
            _check_size(opened[0], dimensions)


async def _ended(generation: Generation) -> None:
    while not generation.ended:
        await generation.advance()


def _check_size(generation: Generation, dimensions: int | None) -> None:
    size = len(generation.embedding or ())
    if dimensions not in (None, size):
        raise bad_request(
            f"dimensions must be {size}, the size of this model's embeddings, or left out: they "
            "cannot be cut",
            "dimensions",
        )


def _answer(generations: Sequence[Generation], body: EmbeddingRequest, model: str) -> bytes:
    found = [generation.embedding or () for generation in generations]
    tokens = sum(generation.prompt_tokens for generation in generations)
    return msgspec.json.encode(
        EmbeddingList(
            model,
            [
                Embedding(index, _base64(one) if body.encoding_format == "base64" else one)
                for index, one in enumerate(found)
            ],
            EmbeddingUsage(tokens, tokens),
        )
    )


def _base64(numbers: tuple[float, ...]) -> str:
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()
