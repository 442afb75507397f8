"""The handler of `/v1/embeddings`: by the served model's hidden states, or by an encoder."""

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
from netgain.server.encoder_service import EncoderService
from netgain.server.errors import bad_request
from netgain.server.exchange import Exchange
from netgain.server.frontend import Frontend, Job
from netgain.server.generation import Arrival, Generation
from netgain.server.json_response import ExchangeResponse, json_response
from netgain.server.model_names import ModelNames
from netgain.server.prompts import PromptLimits
from netgain.server.salt import cache_salt
from netgain.server.socket_timing import socket_times

_AT_ONCE: Final = 32
"""Inputs in the engine at a time, or as many as it runs: a large list takes no more places."""


class EmbeddingApi:
    """Reads the inputs, has them embedded, and answers in their order."""

    def __init__(
        self,
        frontend: Frontend,
        settings: ServerSettings,
        names: ModelNames,
        encoder: EncoderService | None,
    ) -> None:
        self._frontend = frontend
        self._settings = settings
        self._names = names
        self._encoder = encoder

    async def embeddings(self, request: Request) -> Response:
        """OpenAI's embeddings: the mean over the tokens, of length 1."""
        if self._encoder is None:
            return await self._by_engine(request, None)
        fields = await read_object(request, self._settings.max_body_bytes)
        body = EmbeddingRequest.checked(fields)
        if not self._names.is_encoder(body.model):
            return await self._by_engine(request, body)
        return await self._by_encoder(request, body, self._encoder)

    async def _by_encoder(
        self, request: Request, body: EmbeddingRequest, service: EncoderService
    ) -> Response:
        config = service.encoder.config
        _check_size(config.hidden, body.dimensions)
        found = await service.embed(
            body.inputs(PromptLimits(config.max_tokens, config.vocab_size)), request
        )
        tokens = sum(one.tokens for one in found)
        answer = _answer([one.embedding for one in found], tokens, body, service.encoder.name)
        total_ms = (time.monotonic_ns() - socket_times(request).first_byte_ns) / 1e6
        response = json_response(answer)
        response.headers["server-timing"] = f"total;dur={total_ms:.3f}"
        return response

    async def _by_engine(self, request: Request, body: EmbeddingRequest | None) -> Response:
        exchange = Exchange(request, self._frontend)
        try:
            if body is None:
                fields = await read_object(request, self._settings.max_body_bytes)
                body = EmbeddingRequest.checked(fields)
            model = self._names.check(body.model)
            await self._embed(exchange, self._job(exchange, body), body.dimensions)
            found = [generation.embedding or () for generation in exchange.generations]
            tokens = sum(generation.prompt_tokens for generation in exchange.generations)
            return ExchangeResponse(_answer(found, tokens, body, model), exchange)
        except BaseException:
            exchange.close()
            raise

    def _job(self, exchange: Exchange, body: EmbeddingRequest) -> Job:
        inputs = body.inputs(self._frontend.limits())
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
        at_once = min(_AT_ONCE, self._frontend.max_running)
        for start in range(0, len(job.prompts), at_once):
            part = replace(job, prompts=job.prompts[start : start + at_once])
            opened = await exchange.open(part)
            await asyncio.gather(*map(_ended, opened))
            failure = exchange.failure()
            if failure is not None:
                raise failure
            _check_size(len(opened[0].embedding or ()), dimensions)


async def _ended(generation: Generation) -> None:
    while not generation.ended:
        await generation.advance()


def _check_size(size: int, dimensions: int | None) -> None:
    if dimensions not in (None, size):
        raise bad_request(
            f"dimensions must be {size}, the size of this model's embeddings, or left out: they "
            "cannot be cut",
            "dimensions",
        )


def _answer(
    found: Sequence[tuple[float, ...]], tokens: int, body: EmbeddingRequest, model: str
) -> bytes:
    coded = body.encoding_format == "base64"
    return msgspec.json.encode(
        EmbeddingList(
            model,
            [Embedding(index, _base64(one) if coded else one) for index, one in enumerate(found)],
            EmbeddingUsage(tokens, tokens),
        )
    )


def _base64(numbers: tuple[float, ...]) -> str:
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()
