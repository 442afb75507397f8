"""The handlers of the generating endpoints."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from netgain.config import ServerSettings
from netgain.engine.sampling_params import SamplingParams
from netgain.server.body import read_object
from netgain.server.event_stream import ChunkFormat, EventStream, StreamOptions
from netgain.server.exchange import Exchange
from netgain.server.frontend import Frontend, Job
from netgain.server.generation import Arrival, Generation, ScoredToken
from netgain.server.json_response import ExchangeResponse
from netgain.server.metrics import ServerMetrics
from netgain.server.model_names import ModelNames
from netgain.server.prompts import PromptText
from netgain.server.protocol import ChatRequest, CompletionRequest
from netgain.server.responses import ledger_part
from netgain.server.salt import cache_salt
from netgain.server.whole_answer import Answered, AnswerHead, chat_completion, completion
from netgain.text.rendered import RenderedChat


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request as read: what its answer says about itself, its body, what is to be generated."""

    head: AnswerHead
    body: CompletionRequest | ChatRequest
    job: Job


class GenerationApi:
    """Completions and chats: read, generate, answer whole or as a stream."""

    def __init__(
        self,
        frontend: Frontend,
        metrics: ServerMetrics,
        settings: ServerSettings,
        names: ModelNames,
    ) -> None:
        self._frontend = frontend
        self._metrics = metrics
        self._settings = settings
        self._names = names

    async def completions(self, request: Request) -> Response:
        """OpenAI's text completion; `netgain` holds options of netgain's own."""
        return await self._answer(request, self._completion)

    async def chat(self, request: Request) -> Response:
        """OpenAI's chat completion; `netgain` holds options of netgain's own."""
        return await self._answer(request, self._chat)

    async def _answer(
        self, request: Request, read: Callable[[Exchange, dict[str, object]], _Asked]
    ) -> Response:
        """Opens an exchange; the response closes it, or whatever fails before there is one."""
        exchange = Exchange(request, self._frontend)
        try:
            asked = read(exchange, await read_object(request, self._settings.max_body_bytes))
            await exchange.open(asked.job)
            if asked.body.stream:
                return self._stream(exchange, asked)
            answers = await _gather(exchange.generations)
            failure = exchange.failure()
            if failure is not None:
                raise failure
            return ExchangeResponse(self._whole(exchange, asked, answers), exchange)
        except BaseException:
            exchange.close()
            raise

    def _completion(self, exchange: Exchange, fields: dict[str, object]) -> _Asked:
        body = CompletionRequest.parse(fields)
        model = self._names.check(body.model)
        prompts = body.prompts(self._frontend.limits())
        sampling = body.sampling()
        validated_ns = time.monotonic_ns()
        return self._asked(exchange, body, model, prompts, sampling, validated_ns)

    def _chat(self, exchange: Exchange, fields: dict[str, object]) -> _Asked:
        body = ChatRequest.parse(fields)
        model = self._names.check(body.model)
        sampling = body.sampling()
        # Rendering the template counts as tokenising: the request is valid from here on.
        validated_ns = time.monotonic_ns()
        prompt = self._frontend.text.render_chat(
            body.messages,
            self._frontend.limits(),
            parse_special=body.netgain.special_tokens_in_messages,
        )
        return self._asked(exchange, body, model, (prompt,), sampling, validated_ns)

    def _asked(
        self,
        exchange: Exchange,
        body: CompletionRequest | ChatRequest,
        model: str,
        prompts: tuple[PromptText | RenderedChat, ...],
        sampling: SamplingParams,
        validated_ns: int,
    ) -> _Asked:
        chat = isinstance(body, ChatRequest)
        prefix = "chatcmpl" if chat else "cmpl"
        job = Job(
            exchange.id,
            prompts,
            sampling,
            Arrival(exchange.times.first_byte_ns, validated_ns),
            field="messages" if chat else "prompt",
            samples=body.n,
            limit_field=body.limit_field,
            limit_sent=body.limit_sent,
            discards_answer=body.discards_answer,
            timeout_s=body.netgain.timeout_s or self._settings.request_timeout_s,
            salt=cache_salt(self._settings.api_key, body.netgain.cache_salt),
            trace_id=exchange.trace_id,
        )
        head = AnswerHead(f"{prefix}-{exchange.id}", int(time.time()), model)
        return _Asked(head, body, job)

    def _stream(self, exchange: Exchange, asked: _Asked) -> EventStream:
        body, head = asked.body, asked.head
        chat = isinstance(body, ChatRequest)
        kind = "chat.completion.chunk" if chat else "text_completion"
        return EventStream(
            exchange,
            ChunkFormat(kind, head.id, head.model, head.created, body.include_usage),
            StreamOptions(
                usage=body.include_usage,
                running_usage=body.running_usage,
                ledger=body.netgain.ledger,
                chat=chat,
                echo=body.echo,
                logprobs=asked.job.sampling.logprobs is not None,
                prompt_logprobs=body.prompt_logprobs is not None,
            ),
            self._metrics,
            self._frontend.text.tokenizer,
        )

    def _whole(self, exchange: Exchange, asked: _Asked, answers: list[Answered]) -> bytes:
        netgain = None
        if asked.body.netgain.ledger:
            now_ns = time.monotonic_ns()
            netgain = ledger_part(exchange.ledgers(now_ns, now_ns))
        tokenizer = self._frontend.text.tokenizer
        if isinstance(asked.body, ChatRequest):
            return chat_completion(tokenizer, asked.body, asked.head, answers, netgain)
        return completion(tokenizer, asked.body, asked.head, answers, netgain)


async def _gather(generations: tuple[Generation, ...]) -> list[Answered]:
    if len(generations) == 1:
        return [await _whole(generations[0])]
    tasks = [asyncio.ensure_future(_whole(generation)) for generation in generations]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


async def _whole(generation: Generation) -> Answered:
    pieces: list[str] = []
    tokens: list[ScoredToken] = []
    while not generation.ended:
        delta = await generation.advance()
        pieces.append(delta.text)
        tokens += delta.tokens
        generation.shown(time.monotonic_ns())
    return Answered(generation, "".join(pieces), tuple(tokens))
