"""Streams: server-sent events written as bytes, each token's JSON cut to size in advance."""

import asyncio
import time
from dataclasses import dataclass
from typing import Final

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from netgain.errors import EngineDeadError
from netgain.server.errors import ApiError, as_api_error
from netgain.server.exchange import Exchange
from netgain.server.generation import Generation, ScoredToken
from netgain.server.json_response import error_response
from netgain.server.logprobs import (
    chat_logprobs,
    completion_logprobs,
    echoed_logprobs,
    echoed_text,
    prompt_logprobs,
)
from netgain.server.metrics import ServerMetrics
from netgain.server.responses import LedgerPart, Usage, ledger_part, usage_of
from netgain.text.tokenizer import Tokenizer

_encode: Final = msgspec.json.encode
_DONE: Final = b"data: [DONE]\n\n"
_NO_USAGE: Final = b"null"


class ChunkFormat:
    """One stream's chunks: what surrounds the text is encoded once.

    `kind`: `text_completion` or `chat.completion.chunk`. `with_usage`: every chunk but the last
    says `"usage": null`, as OpenAI's do, or the usage so far where it is given.
    """

    def __init__(self, kind: str, id_: str, model: str, created: int, with_usage: bool) -> None:
        start = _encode({"id": id_, "object": kind, "created": created, "model": model})
        self._start = b"data: " + start[:-1] + b',"choices":['
        self._with_usage = with_usage
        self._chat = kind == "chat.completion.chunk"

    def head(self, index: int) -> bytes:
        """All of a chunk of a choice up to its text."""
        opening = b'"delta":{"content":' if self._chat else b'"text":'
        return self._start + b'{"index":' + _encode(index) + b"," + opening

    def tail(
        self,
        logprobs: bytes = b"null",
        prompt_logprobs: bytes = b"",
        usage: bytes = _NO_USAGE,
    ) -> bytes:
        """All of a chunk after its text; the arguments are JSON."""
        closing = b'},"logprobs":' if self._chat else b',"logprobs":'
        if prompt_logprobs:
            logprobs += b',"prompt_logprobs":' + prompt_logprobs
        return closing + logprobs + b',"finish_reason":null}' + self._end(usage) + b"}\n\n"

    def role(self, index: int, usage: bytes = _NO_USAGE) -> bytes:
        """A chat stream's first chunk of a choice; nothing for completions."""
        if not self._chat:
            return b""
        return (
            self._start
            + b'{"index":'
            + _encode(index)
            + b',"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}'
            + self._end(usage)
            + b"}\n\n"
        )

    def finish(
        self, index: int, reason: str, netgain: LedgerPart | None, usage: bytes = _NO_USAGE
    ) -> bytes:
        """The chunk that ends a choice."""
        content = b'"delta":{}' if self._chat else b'"text":""'
        return (
            self._start
            + b'{"index":'
            + _encode(index)
            + b","
            + content
            + b',"logprobs":null,"finish_reason":'
            + _encode(reason)
            + b"}"
            + self._end(usage)
            + _netgain(netgain)
            + b"}\n\n"
        )

    def usage(self, usage: Usage, netgain: LedgerPart | None) -> bytes:
        """The chunk without choices that ends a stream with usage."""
        return self._start + b'],"usage":' + _encode(usage) + _netgain(netgain) + b"}\n\n"

    def _end(self, usage: bytes) -> bytes:
        return b'],"usage":' + usage if self._with_usage else b"]"


def _netgain(part: LedgerPart | None) -> bytes:
    return b"" if part is None else b',"netgain":' + _encode(part)


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What a stream holds beside its text; `usage` and `ledger` come with its last events.

    `running_usage`: every chunk holds the usage so far.
    """

    usage: bool
    running_usage: bool
    ledger: bool
    chat: bool
    echo: bool
    logprobs: bool
    prompt_logprobs: bool


class EventStream(Response):
    """Writes an exchange's generations as they come; errors before the first text get a status."""

    media_type = "text/event-stream"

    def __init__(
        self,
        exchange: Exchange,
        chunks: ChunkFormat,
        options: StreamOptions,
        metrics: ServerMetrics,
        tokenizer: Tokenizer,
    ) -> None:
        super().__init__()
        del self.headers["content-length"]
        self.headers["cache-control"] = "no-cache"
        self.headers["x-accel-buffering"] = "no"
        self._exchange = exchange
        self._chunks = chunks
        self._options = options
        self._metrics = metrics
        self._tokenizer = tokenizer
        self._started = False
        self._unfinished = len(exchange.generations)
        self._last_token_ns = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Streams to the end, and closes the exchange whatever happens."""
        try:
            try:
                await self._write_choices(send)
                await self._write_end(send)
            except (EngineDeadError, ApiError) as error:
                failure = as_api_error(error)
                self._metrics.http_errors[failure.status] += 1
                if not self._started:
                    response = error_response(failure)
                    await response(scope, receive, send)
                    return
                event = b"data: " + failure.body() + b"\n\n" + _DONE
                await self._write(send, event, more=False)
        finally:
            self._exchange.close()

    async def _write_choices(self, send: Send) -> None:
        generations = self._exchange.generations
        if len(generations) == 1:
            await self._write_choice(send, 0, generations[0])
            return
        tasks = [
            asyncio.ensure_future(self._write_choice(send, index, generation))
            for index, generation in enumerate(generations)
        ]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    async def _write_choice(self, send: Send, index: int, generation: Generation) -> None:
        head, tail = self._chunks.head(index), self._chunks.tail()
        opening = self._chunks.role(index, self._usage_so_far())
        times = self._exchange.times
        offset = 0
        asks_about_prompt = self._options.echo or self._options.prompt_logprobs
        while not generation.ended:
            delta = await generation.advance()
            if asks_about_prompt:
                asks_about_prompt = False
                chunk, offset = await self._prompt_chunk(index, generation)
                opening += chunk
            if delta.text or delta.tokens:
                if self._options.logprobs or self._options.running_usage:
                    tail = self._chunks.tail(
                        self._logprobs(delta.tokens, offset), usage=self._usage_so_far()
                    )
                await self._write(send, opening + head + _encode(delta.text) + tail)
                opening = b""
                self._last_token_ns = times.last_write_ns
                generation.shown(self._last_token_ns)
            else:
                # A token without text of its own (end of sequence) has no event of its own.
                self._last_token_ns = time.monotonic_ns()
        generation.shown(self._last_token_ns)
        failure = self._exchange.failure()
        if failure is not None:
            raise failure
        self._unfinished -= 1
        last = self._unfinished == 0 and not self._options.usage
        assert generation.finish_reason is not None
        await self._write(
            send,
            opening
            + self._chunks.finish(
                index,
                generation.finish_reason.value,
                self._ledgers() if last else None,
                self._usage_so_far(),
            ),
        )

    async def _prompt_chunk(self, index: int, generation: Generation) -> tuple[bytes, int]:
        """The chunk that echoes the prompt, or holds its logprobs; and the echo's characters."""
        options, tokenizer, prompt = self._options, self._tokenizer, generation.prompt
        scores = await generation.prompt_scores()
        if generation.ended and self._exchange.failure() is not None:
            return b"", 0
        text = echoed_text(tokenizer, prompt) if options.echo else ""
        logprobs = b"null"
        if options.echo and options.logprobs and scores is not None:
            logprobs = _encode(echoed_logprobs(tokenizer, prompt, scores))
        of_prompt = b""
        if options.prompt_logprobs and scores is not None:
            of_prompt = _encode(prompt_logprobs(tokenizer, scores))
        tail = self._chunks.tail(logprobs, of_prompt, self._usage_so_far())
        chunk = self._chunks.head(index) + _encode(text) + tail
        return chunk, len(text)

    def _logprobs(self, tokens: tuple[ScoredToken, ...], offset: int) -> bytes:
        if not self._options.logprobs:
            return b"null"
        if self._options.chat:
            return _encode(chat_logprobs(self._tokenizer, tokens))
        return _encode(completion_logprobs(self._tokenizer, tokens, offset))

    async def _write_end(self, send: Send) -> None:
        usage = b""
        if self._options.usage:
            usage = self._chunks.usage(usage_of(self._exchange.generations), self._ledgers())
        await self._write(send, usage + _DONE, more=False)

    def _usage_so_far(self) -> bytes:
        """JSON; null where only the last chunk holds it."""
        if not self._options.running_usage:
            return _NO_USAGE
        return _encode(usage_of(self._exchange.generations))

    def _ledgers(self) -> LedgerPart | None:
        """The ledgers up to the event with the last token."""
        if not self._options.ledger:
            return None
        return ledger_part(self._exchange.ledgers(self._last_token_ns, self._last_token_ns))

    async def _write(self, send: Send, data: bytes, *, more: bool = True) -> None:
        if not self._started:
            self._started = True
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": data, "more_body": more})
