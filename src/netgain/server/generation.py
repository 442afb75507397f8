"""One prompt's life on this side of the engine: token ids become text, times become a ledger."""

import time
from dataclasses import dataclass
from typing import Final

from netgain.engine.client import EngineClient, OutputEvent, OutputStream, StepArrival
from netgain.engine.messages import FinishReason, RequestId, RequestOutput
from netgain.errors import EngineDeadError
from netgain.ledger.record import Handoff, LedgerRecord
from netgain.ledger.request_ledger import RequestLedger
from netgain.ledger.stages import HandoffKind, LedgerStage
from netgain.server.ledger_book import ClosedLedger
from netgain.server.metrics import RequestSummary, ServerMetrics
from netgain.text.stream import TextStream

_FRONTEND: Final = "frontend"
_ENGINE: Final = "engine-0"


@dataclass(frozen=True, slots=True)
class Arrival:
    """How a request came in, in monotonic nanoseconds.

    `start_ns`: its first byte at the socket. `validated_ns`: body parsed and validated.
    """

    start_ns: int
    validated_ns: int


class Generation:
    """Reads one request's outputs, turns them into text, and keeps its ledger.

    The caller reads with `advance`, says `shown` when the text reached the client, and `close`
    when the client has it all.
    """

    __slots__ = (
        "_arrival",
        "_client",
        "_closed",
        "_events",
        "_last_arrival",
        "_last_shown_ns",
        "_metrics",
        "_output_bytes",
        "_output_first_ns",
        "_output_messages",
        "_output_overlapped_ns",
        "_record",
        "_text",
        "_text_ns",
        "_tokenized_ns",
        "_unshown_tokens",
        "cached_tokens",
        "completion_tokens",
        "error",
        "finish_reason",
        "first_token_ns",
        "id",
        "prompt_tokens",
    )

    def __init__(
        self,
        id_: RequestId,
        prompt_tokens: int,
        events: OutputStream,
        text: TextStream,
        arrival: Arrival,
        tokenized_ns: int,
        client: EngineClient,
        metrics: ServerMetrics,
    ) -> None:
        self.id = id_
        self.prompt_tokens = prompt_tokens
        self.completion_tokens = 0
        self.cached_tokens = 0
        self.finish_reason: FinishReason | None = None
        self.error: str | None = None
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

    @property
    def ended(self) -> bool:
        """Whether the engine said its last word on it."""
        return self.finish_reason is not None

    async def advance(self) -> str:
        """Waits for the next step's outputs; returns the text they complete, possibly none.

        Raises `EngineDeadError` when the engine is gone.
        """
        try:
            text = self._take(await self._events.next())
        except EngineDeadError as error:
            self.finish_reason = FinishReason.ERROR
            self.error = str(error)
            raise
        # A reader that fell behind catches up in one event.
        while (event := self._events.ready()) is not None:
            text += self._take(event)
        self._text_ns = time.monotonic_ns()
        return text

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

    def ledger(self, delivered_ns: int, end_ns: int) -> ClosedLedger:
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
        return ClosedLedger(ledger.record(), self._arrival.start_ns, end_ns, self.first_token_ns)

    def close(self, end_ns: int) -> ClosedLedger:
        """The exchange is over: `end_ns` is the last write at the socket.

        Counts the request in the metrics once; ends it in the engine if it still runs there.
        """
        if self._closed is not None:
            return self._closed
        self.abort()
        closed = self.ledger(time.monotonic_ns(), end_ns)
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

    def _take(self, event: OutputEvent) -> str:
        output, arrival = event.output, event.arrival
        self._last_arrival = arrival
        self._count_crossing(arrival)
        delta = self._text.push(_visible(output)) if output.token_ids else None
        text = "" if delta is None else delta.text
        stopped = delta is not None and delta.stopped
        if output.finish_reason is None:
            if stopped:
                self._client.abort(self.id, FinishReason.STOP)
        else:
            rest = self._text.finish()
            text += rest.text
            self.finish_reason = (
                FinishReason.STOP if stopped or rest.stopped else output.finish_reason
            )
            self.error = output.error
            self.cached_tokens = output.cached_tokens
            self._record = output.ledger
        # After a stop string nothing counts: how far the engine ran on until it heard is chance.
        tokens = self._text.tokens + (output.stop_token_id is not None and not stopped)
        self._unshown_tokens += tokens - self.completion_tokens
        self.completion_tokens = tokens
        return text

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
                self.prompt_tokens,
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
