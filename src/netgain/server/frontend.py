"""The life of a request before and after the engine, without HTTP."""

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass

from netgain.engine.client import EngineClient, EngineState
from netgain.engine.messages import EngineInfo, EngineRequest, FinishReason, RequestId
from netgain.engine.sampling_params import SamplingParams
from netgain.server.errors import (
    ApiError,
    bad_request,
    deadline_exceeded,
    internal,
    overloaded,
    unavailable,
)
from netgain.server.generation import Arrival, Generation, Prompt
from netgain.server.ledger_book import ClosedLedger, LedgerBook
from netgain.server.metrics import ServerMetrics
from netgain.server.model_text import ModelText
from netgain.server.prompts import PromptLimits, PromptText
from netgain.server.request_log import REQUESTS
from netgain.text.rendered import RenderedChat


@dataclass(frozen=True, slots=True)
class Job:
    """A validated request: what to generate, for how long at most, who may share its prefixes.

    `field`: what the client calls its prompts, `limit_field` the limit of its answers, which is
    a default unless `limit_sent`. `samples`: answers of each. `discards_answer`: only
    the prompt is wanted (its logprobs, its echo). `pooling`: nothing is generated but the prompts'
    embeddings. `timeout_s` counts from arrival.
    """

    id: str
    prompts: Sequence[PromptText | RenderedChat]
    sampling: SamplingParams
    arrival: Arrival
    field: str = "prompt"
    samples: int = 1
    limit_field: str = "max_tokens"
    limit_sent: bool = True
    discards_answer: bool = False
    pooling: bool = False
    timeout_s: float | None = None
    salt: str = ""
    trace_id: str | None = None

    @property
    def places(self) -> int:
        """Requests that the engine will hold for it."""
        return len(self.prompts) * self.samples


class Frontend:
    """Admits, tokenises and submits requests, and closes their books."""

    def __init__(
        self,
        client: EngineClient,
        text: ModelText,
        metrics: ServerMetrics,
        book: LedgerBook,
        *,
        max_running: int,
        max_queue: int,
    ) -> None:
        self._client = client
        self._text = text
        self._metrics = metrics
        self._book = book
        self._max_running = max_running
        self._max_queue = max_queue
        self._held = 0
        self._open: dict[str, tuple[tuple[Generation, ...], str | None]] = {}
        self._draining = False
        self._numbers = itertools.count()

    @property
    def text(self) -> ModelText:
        """The model's text side."""
        return self._text

    @property
    def book(self) -> LedgerBook:
        """Ended requests' ledgers."""
        return self._book

    @property
    def engine(self) -> EngineClient:
        """The engine behind this frontend."""
        return self._client

    @property
    def max_running(self) -> int:
        """Requests that the engine runs at a time."""
        return self._max_running

    def limits(self) -> PromptLimits:
        """What prompts the engine takes. Raises `ApiError` (503) while there is no engine."""
        info = self._ready_info()
        return PromptLimits(info.max_model_len, info.vocab_size)

    def admit(self, requests: int, param: str = "prompt") -> None:
        """Takes places for so many requests, until `release`.

        Raises `ApiError`: 503 while no engine serves, 429 when the queue is full, 400 (for `param`)
        for more than there ever is room for.
        """
        self._ready_info()
        most = self._max_running + self._max_queue
        if requests > most:
            raise bad_request(
                f"{requests} answers at once are more than this server ever holds ({most}): send "
                "fewer prompts or a smaller n, or raise --max-queue",
                param,
            )
        after = self._held + requests
        # Whoever does not fit into the steps waits; the engine may also run fewer than it could.
        waiting = max(after - self._max_running, 0)
        if waiting > self._max_queue:
            raise overloaded(max(self._held - self._max_running, 0), self._max_queue)
        self._held = after

    def release(self, requests: int) -> None:
        """Gives places back."""
        self._held -= requests

    async def open(self, job: Job) -> tuple[Generation, ...]:
        """Tokenises and submits, beside what is open under the same id already.

        Raises `ApiError` (400, 503) or `InvalidRequestError`.
        """
        limits = self.limits()
        if job.pooling:
            limits = limits.unanswered()
        job.sampling.check_vocabulary(limits.vocab_size)
        prompts = await self._text.tokenize(job.prompts, limits, job.field)
        if not job.pooling:
            _check_room(prompts, job, limits.context_tokens)
        tokenized_ns = time.monotonic_ns()
        timeout_ns = None
        if job.timeout_s is not None:
            timeout_ns = int(job.timeout_s * 1e9) - (tokenized_ns - job.arrival.start_ns)
            if timeout_ns <= 0:
                raise deadline_exceeded()
        generations: list[Generation] = []
        try:
            for prompt in prompts:
                # No client can ask for an id with a slash, and no number comes twice: an engine
                # id is never that of another request, nor of one that is still being aborted.
                request = EngineRequest(
                    id=RequestId(f"{job.id}/{next(self._numbers)}"),
                    prompt_ids=prompt.ids,
                    sampling=job.sampling,
                    salt=job.salt,
                    timeout_ns=timeout_ns,
                    pooling=job.pooling,
                )
                first: Generation | None = None
                for sample in request.samples(job.samples):
                    generation = self._submit(sample, prompt, job, tokenized_ns, first)
                    first = first or generation
                    generations.append(generation)
        except BaseException:
            for generation in generations:
                generation.abort()
            raise
        opened = tuple(generations)
        before, _ = self._open.get(job.id, ((), None))
        self._open[job.id] = (before + opened, job.trace_id)
        return opened

    def _submit(
        self,
        request: EngineRequest,
        prompt: Prompt,
        job: Job,
        tokenized_ns: int,
        first: Generation | None,
    ) -> Generation:
        return Generation(
            request.id,
            prompt,
            self._client.submit(request),
            self._text.stream(job.sampling.stop, job.sampling.min_tokens),
            job.arrival,
            tokenized_ns,
            self._client,
            self._metrics,
            trace=None if job.sampling.logprobs is None else self._text.trace(),
            first_sample=first,
            discards_answer=job.discards_answer,
        )

    def close(self, id_: str, end_ns: int) -> tuple[ClosedLedger, ...]:
        """The exchange is over; what is left of it in the engine is ended."""
        generations, trace_id = self._open.pop(id_, ((), None))
        ledgers = tuple(generation.close(end_ns, trace_id) for generation in generations)
        self._book.end(id_, ledgers)
        for generation in generations:
            REQUESTS.info(
                "request=%s trace=%s finish=%s prompt_tokens=%d generated_tokens=%d",
                id_,
                trace_id or "-",
                generation.finish_reason or "abort",
                generation.prompt_tokens,
                generation.completion_tokens,
            )
        return ledgers

    def failure(self, generation: Generation) -> ApiError | None:
        """The error that an ended generation means for its client; None if it was answered."""
        match generation.finish_reason:
            case FinishReason.TIMEOUT:
                return deadline_exceeded()
            case FinishReason.ABORT if self._draining:
                return _shutting_down()
            case FinishReason.ABORT:
                return ApiError(499, "the client went away", code="client_disconnected")
            case FinishReason.ERROR:
                return internal(generation.error or "the engine could not go on with this request")
            case _:
                return None

    def drain(self) -> None:
        """From now on nothing new is taken."""
        self._draining = True

    def abort_all(self) -> None:
        """Ends whatever still runs."""
        for generations, _ in list(self._open.values()):
            for generation in generations:
                generation.abort()

    def _ready_info(self) -> EngineInfo:
        if self._draining:
            raise _shutting_down()
        info = self._client.info
        if self._client.state is EngineState.READY and info is not None:
            return info
        if self._client.state is EngineState.STARTING and info is None:
            raise unavailable(
                "the model is still loading; try again shortly", "loading", retry_after_s=2
            )
        raise unavailable(
            "the engine ended and is being restarted; try again shortly", "engine_unavailable"
        )


def _shutting_down() -> ApiError:
    return unavailable("this server is shutting down; try again once it is back", "shutting_down")


def _check_room(prompts: Sequence[Prompt], job: Job, context: int) -> None:
    longest = max(len(prompt.ids) for prompt in prompts)
    asked = (
        (job.limit_field, job.sampling.max_tokens or 0, job.limit_sent),
        ("min_tokens", job.sampling.min_tokens, True),
    )
    for field, tokens, sent in asked:
        if longest + tokens > context:
            raise bad_request(
                f"the prompt has {longest} tokens and {field} "
                f"{'' if sent else '(where it is not sent) '}asks for {tokens} more; this "
                f"model's context holds {context}: shorten the prompt, or ask for at most "
                f"{context - longest} tokens",
                field,
                "context_length_exceeded",
            )
