"""One prompt's life on this side of the engine: token ids become text, times become a ledger."""

import asyncio
import time
from collections import deque
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Final

from netgain.engine.client import EngineClient, OutputEvent, OutputStream, StepArrival
from netgain.engine.messages import FinishReason, RequestId, RequestOutput, TokenLogprob
from netgain.errors import EngineDeadError
from netgain.ledger.record import Handoff, LedgerRecord
from netgain.ledger.request_ledger import RequestLedger
from netgain.ledger.stages import HandoffKind, LedgerStage
from netgain.server.ledger_book import ClosedLedger
from netgain.server.metrics import RequestSummary, ServerMetrics
from netgain.text.stream import TextDelta, TextStream
from netgain.text.token_trace import TokenTrace, TracedToken

_FRONTEND: Final = "frontend"
_ENGINE: Final = "engine-0"


@dataclass(frozen=True, slots=True)
class Arrival:
    """How a request came in, in monotonic nanoseconds.

    `start_ns`: its first byte at the socket. `validated_ns`: body parsed and validated.
    """

    start_ns: int
    validated_ns: int


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a generation continues; `text` as the client sent it, None for token ids."""

    ids: tuple[int, ...]
    text: str | None = None


@dataclass(frozen=True, slots=True)
class ScoredToken:
    """A token of the answer whose text was shown, and how likely it was."""

    token: TracedToken
    score: TokenLogprob


@dataclass(frozen=True, slots=True)
class Delta:
    """What came since the last one: text to show, and the tokens it completes where scored."""

    text: str
    tokens: tuple[ScoredToken, ...] = ()


class Generation:
    """Reads one request's outputs, turns them into text, and keeps its ledger.

    The caller reads with `advance`, says `shown` when the text reached the client, and `close`
    when the client has it all. A `trace` is given where the client wants logprobs. Of several
    samples of one prompt only the first counts it. With `discards_answer` only the prompt is
    wanted, and the one token that an engine draws nevertheless is dropped.
    """

    __slots__ = (
        "_arrival",
        "_client",
        "_closed",
        "_discards_answer",
        "_events",
        "_last_arrival",
        "_last_shown_ns",
        "_metrics",
        "_output_bytes",
        "_output_first_ns",
        "_output_messages",
        "_output_overlapped_ns",
        "_prompt_logprobs",
        "_prompt_scored",
        "_record",
        "_scores",
        "_text",
        "_text_ns",
        "_tokenized_ns",
        "_trace",
        "_unshown_tokens",
        "cached_tokens",
        "completion_tokens",
        "embedding",
        "error",
        "finish_reason",
        "first_sample",
        "first_token_ns",
        "id",
        "prompt",
        "prompt_tokens",
    )

    def __init__(
        self,
        id_: RequestId,
        prompt: Prompt,
        events: OutputStream,
        text: TextStream,
        arrival: Arrival,
        tokenized_ns: int,
        client: EngineClient,
        metrics: ServerMetrics,
        *,
        trace: TokenTrace | None = None,
        first_sample: "Generation | None" = None,
        discards_answer: bool = False,
    ) -> None:
        self.id = id_
        self.prompt = prompt
        self.first_sample = first_sample
        self.prompt_tokens = 0 if first_sample is not None else len(prompt.ids)
        self._prompt_logprobs: tuple[TokenLogprob | None, ...] | None = None
        self.completion_tokens = 0
        self.cached_tokens = 0
        self.finish_reason: FinishReason | None = None
        self.error: str | None = None
        self.embedding: tuple[float, ...] | None = None
        self.first_token_ns: int | None = None
        self._events = events
        self._text = text
        self._arrival = arrival
        self._tokenized_ns = tokenized_ns
        self._client = client
        self._metrics = metrics
        self._record: LedgerRecord | None = None
        self._last_arrival: StepArrival | None = None
        self._text_ns = tokenized_ns
        self._last_shown_ns: int | None = None
        self._unshown_tokens = 0
        self._output_bytes = 0
        self._output_messages = 0
        self._output_first_ns = 0
        self._output_overlapped_ns = 0
        self._closed: ClosedLedger | None = None
        self._trace = trace
        self._scores: deque[TokenLogprob] = deque()
        self._discards_answer = discards_answer
        self._prompt_scored = asyncio.Event()

    @property
    def start_ns(self) -> int:
        """When the request's first byte came."""
        return self._arrival.start_ns

    @property
    def ended(self) -> bool:
        """Whether the engine said its last word on it."""
        return self.finish_reason is not None

    async def advance(self) -> Delta:
        """Waits for the next step's outputs; returns what they complete, possibly nothing.

        Raises `EngineDeadError` when the engine is gone.
        """
        try:
            delta = self._take(await self._events.next())
        except EngineDeadError as error:
            self.finish_reason = FinishReason.ERROR
            self.error = str(error)
            self._prompt_scored.set()
            raise
        # A reader that fell behind catches up in one event.
        while (event := self._events.ready()) is not None:
            more = self._take(event)
            delta = Delta(delta.text + more.text, delta.tokens + more.tokens)
        self._text_ns = time.monotonic_ns()
        return delta

    async def prompt_scores(self) -> tuple[TokenLogprob | None, ...] | None:
        """The prompt's logprobs once they are there; they come with the first sample.

        None where they were not asked for, or where the request ended without them.
        """
        await (self.first_sample or self)._prompt_scored.wait()
        return self.known_prompt_scores

    @property
    def known_prompt_scores(self) -> tuple[TokenLogprob | None, ...] | None:
        """The prompt's logprobs if they have come."""
        return (self.first_sample or self)._prompt_logprobs

    def abort(self) -> None:
        """The client is gone; the last output still comes, and ends it."""
        if not self.ended:
            self._client.abort(self.id, FinishReason.ABORT)

    def shown(self, at_ns: int) -> None:
        """What `advance` returned so far reached the client at `at_ns`."""
        if not self._unshown_tokens:
            return
        if self._last_shown_ns is None:
            self.first_token_ns = at_ns
        else:
            self._metrics.gap(at_ns - self._last_shown_ns, self._unshown_tokens)
        self._last_shown_ns = at_ns
        self._unshown_tokens = 0

    def ledger(self, delivered_ns: int, end_ns: int, trace_id: str | None = None) -> ClosedLedger:
        """The ledger as of now: handed over until `delivered_ns`, held against `end_ns`."""
        ledger = RequestLedger(self._arrival.start_ns)
        ledger.stage(LedgerStage.RECEIVE, self._arrival.validated_ns)
        ledger.stage(LedgerStage.TOKENIZE, self._tokenized_ns)
        if self._record is not None and self._last_arrival is not None:
            ledger.adopt(self._record.shifted(-self._last_arrival.engine_clock_ns))
            self._add_handoffs(ledger, self._record, self._last_arrival)
            ledger.stage(LedgerStage.IPC, self._last_arrival.received_ns)
            ledger.stage(LedgerStage.DETOKENIZE, self._text_ns)
            ledger.stage(LedgerStage.DELIVER, delivered_ns)
        return ClosedLedger(
            ledger.record(), self._arrival.start_ns, end_ns, self.first_token_ns, trace_id
        )

    def seconds_in(self, stages: Container[LedgerStage]) -> float:
        """Time in these stages of the engine; 0 before the request ended."""
        if self._record is None:
            return 0.0
        return sum(i.end_ns - i.start_ns for i in self._record.stages if i.stage in stages) / 1e9

    def close(self, end_ns: int, trace_id: str | None = None) -> ClosedLedger:
        """The exchange is over: `end_ns` is the last write at the socket.

        Counts the request in the metrics once; ends it in the engine if it still runs there.
        """
        if self._closed is not None:
            return self._closed
        self.abort()
        closed = self.ledger(time.monotonic_ns(), end_ns, trace_id)
        self._closed = closed
        self._metrics.request_ended(
            RequestSummary(
                self.finish_reason or FinishReason.ABORT,
                self.prompt_tokens,
                self.completion_tokens,
                self.cached_tokens,
                closed.record,
                closed.start_ns,
                end_ns,
                self.first_token_ns,
                self._last_shown_ns,
            )
        )
        return closed

    def _take(self, event: OutputEvent) -> Delta:
        output, arrival = event.output, event.arrival
        self._last_arrival = arrival
        self._count_crossing(arrival)
        if output.prompt_logprobs is not None:
            self._prompt_logprobs = output.prompt_logprobs
        self._prompt_scored.set()
        if output.embedding is not None:
            self.embedding = output.embedding
        if self._discards_answer:
            self._end_discarded(output)
            return Delta("")
        texts: list[str] = []
        tokens: list[ScoredToken] = []
        stopped = self._push(output, texts, tokens)
        if output.finish_reason is None:
            if stopped:
                self._client.abort(self.id, FinishReason.STOP)
        else:
            rest = self._text.finish()
            texts.append(rest.text)
            if self._trace is not None:
                tokens += self._scored(self._trace.shown(len(rest.text)))
                tokens += self._scored(self._trace.finish())
            self._end(
                output, FinishReason.STOP if stopped or rest.stopped else output.finish_reason
            )
        # After a stop string nothing counts: how far the engine ran on until it heard is chance.
        counted = self._text.tokens + (output.stop_token_id is not None and not stopped)
        self._unshown_tokens += counted - self.completion_tokens
        self.completion_tokens = counted
        return Delta("".join(texts), tuple(tokens))

    def _push(self, output: RequestOutput, texts: list[str], tokens: list[ScoredToken]) -> bool:
        """Appends the text of an output's tokens; says whether a stop string ended it."""
        visible = _visible(output)
        if self._trace is None:
            delta = self._text.push(visible) if output.token_ids else TextDelta("")
            texts.append(delta.text)
            return delta.stopped
        for id_, score in zip(visible, output.logprobs, strict=False):
            before = self._text.tokens
            delta = self._text.push((id_,))
            texts.append(delta.text)
            if self._text.tokens > before:
                self._scores.append(score)
                self._trace.push(id_)
                tokens += self._scored(self._trace.shown(len(delta.text)))
            if delta.stopped:
                return True
        return False

    def _scored(self, released: Sequence[TracedToken]) -> list[ScoredToken]:
        return [ScoredToken(token, self._scores.popleft()) for token in released]

    def _end(self, output: RequestOutput, reason: FinishReason) -> None:
        self.finish_reason = reason
        self.error = output.error
        self.cached_tokens = 0 if self.first_sample is not None else output.cached_tokens
        self._record = output.ledger

    def _end_discarded(self, output: RequestOutput) -> None:
        """The token drawn says nothing about how the answer that nobody wants would have ended."""
        if output.finish_reason is None:
            return
        drawn = output.finish_reason is FinishReason.STOP
        self._end(output, FinishReason.LENGTH if drawn else output.finish_reason)

    def _count_crossing(self, arrival: StepArrival) -> None:
        if self._output_messages == 0:
            self._output_first_ns = arrival.sent_ns
        self._output_messages += 1
        self._output_bytes += arrival.bytes_per_output
        self._output_overlapped_ns += arrival.received_ns - arrival.sent_ns

    def _add_handoffs(self, ledger: RequestLedger, record: LedgerRecord, last: StepArrival) -> None:
        submitted_ns = self._events.submitted_ns
        arrived_ns = (
            record.stages[0].start_ns - last.engine_clock_ns if record.stages else last.received_ns
        )
        ledger.handoff(
            Handoff(
                HandoffKind.IPC_SUBMIT,
                _FRONTEND,
                _ENGINE,
                self._events.submitted_bytes,
                len(self.prompt.ids),
                submitted_ns,
                max(arrived_ns, submitted_ns),
            )
        )
        # Only the last message is waited for: while any other travels, the next step runs.
        ledger.handoff(
            Handoff(
                HandoffKind.IPC_OUTPUT,
                _ENGINE,
                _FRONTEND,
                self._output_bytes,
                self.completion_tokens,
                self._output_first_ns,
                last.received_ns,
                overlapped_ns=self._output_overlapped_ns - (last.received_ns - last.sent_ns),
                count=self._output_messages,
            )
        )


def _visible(output: RequestOutput) -> tuple[int, ...]:
    """The ids whose text the client sees: the token that ended the sequence is not among them."""
    ids = output.token_ids
    if output.stop_token_id is not None and ids and ids[-1] == output.stop_token_id:
        return ids[:-1]
    return ids
