"""A model in one process, without HTTP: the same engine, no frontend."""

import copy
import itertools
import threading
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self, TypeAlias

import msgspec

from netgain.config import (
    EngineSettings,
    KVSettings,
    ModelSettings,
    SchedulerSettings,
    checked,
)
from netgain.cost.step_time import StepTimeEstimator
from netgain.engine.assembly import build_engine
from netgain.engine.events import EmitOutputs, Event, RequestAborted, RequestArrived
from netgain.engine.messages import (
    EngineInfo,
    EngineRequest,
    FinishReason,
    LoadPart,
    RequestId,
    RequestOutput,
    TokenLogprob,
)
from netgain.engine.runner import EngineRunner, EventInbox, Journal
from netgain.engine.sampling_params import SamplingParams
from netgain.errors import InvalidRequestError, NetgainError
from netgain.ledger.counters import EngineCounters
from netgain.ledger.record import LedgerJSON, render
from netgain.ledger.request_ledger import RequestLedger
from netgain.ledger.stages import LedgerStage
from netgain.models.chat_template_source import load_chat_template
from netgain.models.tokenizer_source import load_tokenizer
from netgain.text.rendered import render_quoted
from netgain.text.stream import TextStream

Prompt: TypeAlias = str | Sequence[int]
Message: TypeAlias = Mapping[str, str]
_NOT_PROMPTS: Final = "prompts must be a text, a list of token ids (integers), or a list of these"


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer.

    `token_ids` are all that were generated, an end-of-sequence token included; `text` stops
    before a stop string or stop token. `ledger` says where the time went. `logprobs`: one per
    token id if they were asked for, else empty; `prompt_logprobs`: one per prompt token, None for
    the first, or None if they were not asked for.
    """

    prompt_token_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    text: str
    finish_reason: FinishReason
    cached_tokens: int
    ledger: LedgerJSON
    logprobs: tuple[TokenLogprob, ...] = ()
    prompt_logprobs: tuple[TokenLogprob | None, ...] | None = None


@dataclass(frozen=True, slots=True)
class Embedding:
    """A prompt's embedding: a vector of length 1 (see `RequestOutput.embedding`)."""

    prompt_token_ids: tuple[int, ...]
    vector: tuple[float, ...]
    ledger: LedgerJSON


@dataclass(frozen=True, slots=True)
class CompletionDelta:
    """New text of a streamed answer; the last one carries the whole answer."""

    text: str
    completion: Completion | None = None


class _Pending:
    """One request between arrival and answer."""

    def __init__(
        self, prompt_ids: tuple[int, ...], ledger: RequestLedger, stream: TextStream
    ) -> None:
        self.prompt_ids = prompt_ids
        self.ledger = ledger
        self.stream = stream
        self.token_ids: list[int] = []
        self.logprobs: list[TokenLogprob] = []
        self.prompt_logprobs: tuple[TokenLogprob | None, ...] | None = None
        self.pieces: list[str] = []
        self.embedding: tuple[float, ...] | None = None
        self.first_token_ns: int | None = None
        self.stopped = False
        self.completion: Completion | None = None
        self.error: str | None = None

    def ended(self) -> bool:
        """Whether the answer is there. Raises `NetgainError` if the engine could not answer."""
        if self.error is not None:
            raise NetgainError(f"the engine could not answer: {self.error}")
        return self.completion is not None


class LLM:
    """Loads a model and generates.

    `model` is a stored name, a GGUF file or a checkpoint folder. `kv_memory` takes sizes such as
    `"512MiB"`. `backend`, `weights`, `kv_dtype` and `numerics` take the values of the command
    line's options; `info` says what `"auto"` became. A `journal` is filled with every event and
    action, `kv_events` among them. Raises `ModelError`, `ConfigurationError` or `CapacityError`
    when it cannot start.

    Not for use from several threads at once; serve over HTTP for that.
    """

    def __init__(
        self,
        model: str = ModelSettings().model,
        *,
        max_model_len: int | None = None,
        threads: int | None = None,
        backend: str = ModelSettings().backend,
        weights: str = ModelSettings().weights,
        numerics: str = ModelSettings().numerics,
        max_num_seqs: int = SchedulerSettings().max_num_seqs,
        max_num_batched_tokens: int = SchedulerSettings().max_num_batched_tokens,
        step_time_target_s: float = SchedulerSettings().step_time_target_s,
        max_outstanding_steps: int = SchedulerSettings().max_outstanding_steps,
        kv_memory: int | str | None = None,
        kv_dtype: str = KVSettings().dtype,
        block_tokens: int = KVSettings().block_tokens,
        prefix_cache: bool = True,
        journal: Journal | None = None,
    ) -> None:
        settings = checked(
            EngineSettings,
            {
                "model": {
                    "model": model,
                    "max_model_len": max_model_len,
                    "threads": threads,
                    "backend": backend,
                    "weights": weights,
                    "numerics": numerics,
                },
                "scheduler": {
                    "max_num_seqs": max_num_seqs,
                    "max_num_batched_tokens": max_num_batched_tokens,
                    "step_time_target_s": step_time_target_s,
                    "max_outstanding_steps": max_outstanding_steps,
                },
                "kv": {
                    "block_tokens": block_tokens,
                    "memory_bytes": kv_memory,
                    "dtype": kv_dtype,
                    "prefix_cache": prefix_cache,
                },
            },
        )
        self._inbox = EventInbox()
        self.load: list[LoadPart] = []
        engine = build_engine(
            settings,
            self._inbox.post,
            self.load.append,
            record_kv_events=journal is not None,
        )
        self.info: EngineInfo = engine.info
        self._engine = engine
        source = engine.checkpoint.header or engine.checkpoint.path
        self.tokenizer = load_tokenizer(source)
        self._chat_template = load_chat_template(source, self.tokenizer)
        self._clock = engine.clock
        self._runner = EngineRunner(
            engine.core, engine.executor, engine.clock, self._take_outputs, journal=journal
        )
        self._pending: dict[RequestId, _Pending] = {}
        self._numbers = itertools.count()
        self._driving = threading.Lock()
        self._driver = threading.get_ident()
        self._closed = False

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        n: int = 1,
    ) -> list[Completion]:
        """Answers all prompts (texts, or token ids), batched together; in the order given.

        With `n` each prompt is answered so often, and its answers follow each other; its full
        blocks are computed once.

        Raises `InvalidRequestError` before anything runs if one cannot be served.
        """
        listed = _listed(prompts)
        params = _params(sampling_params, len(listed))
        arrivals = [
            sample
            for prompt, one in zip(listed, params, strict=True)
            for sample in self._samples(prompt, one, n)
        ]
        return [_answer(pending) for pending in self._serve(arrivals)]

    def embed(self, prompts: Prompt | Sequence[Prompt]) -> list[Embedding]:
        """Embeds all prompts (texts, or token ids), batched together; in the order given.

        Raises `InvalidRequestError` before anything runs if one cannot be served.
        """
        arrivals: list[tuple[EngineRequest, _Pending]] = []
        for prompt in _listed(prompts):
            request, pending = self._prepare(prompt, SamplingParams(), answer_tokens=0)
            arrivals.append((msgspec.structs.replace(request, pooling=True), pending))
        return [_embedding(pending) for pending in self._serve(arrivals)]

    def _serve(self, arrivals: Sequence[tuple[EngineRequest, _Pending]]) -> list[_Pending]:
        ids = [request.id for request, _ in arrivals]
        for request, pending in arrivals:
            self._pending[request.id] = pending
        try:
            self._turn([RequestArrived(request) for request, _ in arrivals])
            while not all(pending.ended() for _, pending in arrivals):
                self._turn()
        except BaseException:
            self._abandon(ids)
            raise
        return [self._pending.pop(request_id) for request_id in ids]

    def stream(
        self, prompt: Prompt, sampling_params: SamplingParams | None = None
    ) -> Generator[CompletionDelta, None, None]:
        """Yields text as it comes; closing the iterator cancels the request."""
        request, pending = self._prepare(prompt, sampling_params or SamplingParams())
        self._pending[request.id] = pending
        shown = 0
        try:
            self._turn([RequestArrived(request)])
            while not pending.ended():
                self._turn()
                if len(pending.pieces) > shown and pending.completion is None:
                    text = "".join(pending.pieces[shown:])
                    shown = len(pending.pieces)
                    if text:
                        yield CompletionDelta(text)
            yield CompletionDelta("".join(pending.pieces[shown:]), pending.completion)
        finally:
            self._abandon([request.id])

    def chat_prompt(self, messages: Sequence[Message]) -> list[int]:
        """The token ids of a conversation in the model's chat template.

        Control tokens written in messages stay text; put them into token ids where they should act.
        Raises `InvalidRequestError` if the model has no template or the template refuses.
        """
        if self._chat_template is None:
            raise InvalidRequestError("this model has no chat template; send a plain prompt")
        rendered = render_quoted(
            self._chat_template,
            [dict(message) for message in messages],
            self.tokenizer.special_tokens,
        )
        return self.tokenizer.encode_quoted(rendered.text, rendered.quoted)

    def chat(
        self, messages: Sequence[Message], sampling_params: SamplingParams | None = None
    ) -> Completion:
        """Answers a conversation of `{"role": ..., "content": ...}` messages."""
        return self.generate([self.chat_prompt(messages)], sampling_params)[0]

    def counters(self) -> EngineCounters:
        """The engine's raw counters so far."""
        return self._engine.core.counters()

    def reset_prefix_cache(self) -> int:
        """Forgets every cached block; returns how many."""
        return self._engine.core.reset_prefix_cache()

    def copy_estimator(self) -> StepTimeEstimator:
        """The step-time model as calibrated so far, for a simulation to start from."""
        return copy.deepcopy(self._engine.core.estimator)

    def close(self) -> None:
        """Ends the engine's thread; the object cannot generate afterwards."""
        if not self._closed:
            self._closed = True
            self._engine.executor.close()

    def __enter__(self) -> Self:
        """Itself; `close` is called at the end."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Closes."""
        self.close()

    def _prepare(
        self, prompt: Prompt, params: SamplingParams, *, answer_tokens: int = 1
    ) -> tuple[EngineRequest, _Pending]:
        """`answer_tokens`: for how many there must be room at least."""
        if self._closed:
            raise NetgainError("this LLM is closed; make a new one")
        ledger = RequestLedger(self._clock.now_ns())
        if isinstance(prompt, str):
            ids = tuple(self.tokenizer.encode(prompt, add_special_tokens=True))
        else:
            ids = tuple(prompt)
        ledger.stage(LedgerStage.TOKENIZE, self._clock.now_ns())
        self._check_prompt(ids, answer_tokens)
        params.check_vocabulary(self.info.vocab_size)
        request = EngineRequest(
            id=RequestId(f"llm-{next(self._numbers)}"), prompt_ids=ids, sampling=params
        )
        return request, _Pending(ids, ledger, self._stream(params))

    def _samples(
        self, prompt: Prompt, params: SamplingParams, n: int
    ) -> list[tuple[EngineRequest, _Pending]]:
        request, pending = self._prepare(prompt, params)
        samples = [(request, pending)]
        for sample in request.samples(n)[1:]:
            ledger = RequestLedger(self._clock.now_ns())
            stream = self._stream(params)
            samples.append((sample, _Pending(pending.prompt_ids, ledger, stream)))
        return samples

    def _stream(self, params: SamplingParams) -> TextStream:
        return TextStream(self.tokenizer, params.stop, params.min_tokens)

    def _check_prompt(self, ids: Sequence[int], answer_tokens: int) -> None:
        if not ids:
            raise InvalidRequestError("the prompt is empty; give at least one token", "prompt")
        most = self.info.max_model_len - answer_tokens
        if len(ids) > most:
            fit = "leave room for an answer" if answer_tokens else "fit into the context"
            raise InvalidRequestError(
                f"the prompt has {len(ids)} tokens; at most {most} {fit}", "prompt"
            )
        for token in ids:
            if not 0 <= token < self.info.vocab_size:
                raise InvalidRequestError(
                    f"token id {token} is not in the vocabulary (0 to {self.info.vocab_size - 1})",
                    "prompt",
                )

    def _turn(self, events: list[Event] | None = None) -> None:
        """One turn of the core with these events, or with those that come next."""
        if self._closed:
            raise NetgainError("this LLM was closed before the answer was complete")
        if not self._driving.acquire(blocking=False):
            raise NetgainError(
                "another thread is using this LLM; use it from one at a time, or serve over HTTP"
            )
        try:
            self._driver = threading.get_ident()
            if events is None:
                events = self._inbox.take(self._runner.seconds_to_timer())
            self._runner.turn(events)
        finally:
            self._driving.release()

    def _abandon(self, ids: Sequence[RequestId]) -> None:
        """Cancels what has not ended and forgets the requests.

        The garbage collector may call this by ending a stream: in the middle of a turn, or on the
        executor's thread. Then the next turn cancels.
        """
        for request_id in ids:
            if self._pending.pop(request_id, None) is not None:
                self._inbox.post(RequestAborted(request_id))
        between_turns = threading.get_ident() == self._driver and not self._driving.locked()
        if between_turns and not self._closed:
            self._turn(self._inbox.take())

    def _take_outputs(self, emitted: EmitOutputs) -> None:
        stopped: list[RequestId] = []
        for output in emitted.outputs:
            pending = self._pending.get(output.id)
            if pending is not None and self._take_output(pending, output):
                stopped.append(output.id)
        for request_id in stopped:
            self._inbox.post(RequestAborted(request_id, FinishReason.STOP))

    def _take_output(self, pending: _Pending, output: RequestOutput) -> bool:
        """Adds one step's tokens; whether a stop string was found just now."""
        received_ns = self._clock.now_ns()
        found = False
        if not pending.stopped:
            if output.token_ids and pending.first_token_ns is None:
                pending.first_token_ns = received_ns
            visible = output.token_ids
            if output.stop_token_id is not None:
                visible = visible[:-1]
            delta = pending.stream.push(visible)
            pending.token_ids.extend(output.token_ids)
            pending.logprobs.extend(output.logprobs)
            if output.prompt_logprobs is not None:
                pending.prompt_logprobs = output.prompt_logprobs
            pending.pieces.append(delta.text)
            pending.stopped = found = delta.stopped
        if output.finish_reason is None:
            return found
        if not pending.stopped:
            last = pending.stream.finish()
            pending.pieces.append(last.text)
            pending.stopped = last.stopped
        self._finish(pending, output, received_ns)
        return False

    def _finish(self, pending: _Pending, output: RequestOutput, received_ns: int) -> None:
        reason = FinishReason.STOP if pending.stopped else output.finish_reason
        if reason is None or reason is FinishReason.ERROR:
            # Whoever waits for this request is told; others take part in the same turn.
            pending.error = output.error or "no reason given"
            return
        pending.embedding = output.embedding
        ledger = pending.ledger
        if output.ledger is not None:
            ledger.adopt(output.ledger)
        ledger.stage(LedgerStage.IPC, received_ns)
        end_ns = self._clock.now_ns()
        ledger.stage(LedgerStage.DETOKENIZE, end_ns)
        pending.completion = Completion(
            pending.prompt_ids,
            tuple(pending.token_ids),
            "".join(pending.pieces),
            reason,
            output.cached_tokens,
            render(ledger.record(), ledger.start_ns, end_ns, pending.first_token_ns),
            tuple(pending.logprobs),
            pending.prompt_logprobs,
        )


def _answer(pending: _Pending) -> Completion:
    assert pending.completion is not None
    return pending.completion


def _embedding(pending: _Pending) -> Embedding:
    assert pending.completion is not None
    assert pending.embedding is not None
    return Embedding(pending.prompt_ids, pending.embedding, pending.completion.ledger)


def _listed(prompts: Prompt | Sequence[Prompt]) -> list[Prompt]:
    """One prompt, or many; a flat list of integers is one prompt of token ids.

    Raises `InvalidRequestError` for anything that is neither: callers are not always typed.
    """
    if isinstance(prompts, str):
        return [prompts]
    if not _is_list(prompts):
        raise InvalidRequestError(f"{_NOT_PROMPTS}, not {type(prompts).__name__}", "prompt")
    if prompts and all(_is_token_id(item) for item in prompts):
        return [[item for item in prompts if isinstance(item, int)]]
    listed: list[Prompt] = []
    for item in prompts:
        if isinstance(item, str) or (
            _is_list(item) and not isinstance(item, int) and all(map(_is_token_id, item))
        ):
            listed.append(item)
        else:
            raise InvalidRequestError(f"{_NOT_PROMPTS}; one of them is {item!r:.60}", "prompt")
    return listed


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray))


def _is_token_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _params(
    given: SamplingParams | Sequence[SamplingParams] | None, count: int
) -> list[SamplingParams]:
    if given is None:
        return [SamplingParams()] * count
    if isinstance(given, SamplingParams):
        return [given] * count
    if len(given) != count:
        raise InvalidRequestError(f"{len(given)} sampling params for {count} prompts")
    return list(given)
