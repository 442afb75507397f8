"""The ledgers of ended requests, for as long as there is room."""

from collections import OrderedDict
from dataclasses import dataclass

import msgspec

from netgain.ledger.record import LedgerJSON, LedgerRecord, render


@dataclass(frozen=True, slots=True)
class ClosedLedger:
    """A complete ledger and the span it is held against, in monotonic nanoseconds.

    `trace_id`: the trace that the request said it belongs to.
    """

    record: LedgerRecord
    start_ns: int
    end_ns: int
    first_token_ns: int | None
    trace_id: str | None = None

    def json(self) -> LedgerJSON:
        """As clients see it."""
        ledger = render(self.record, self.start_ns, self.end_ns, self.first_token_ns)
        if self.trace_id is None:
            return ledger
        return msgspec.structs.replace(ledger, trace_id=self.trace_id)


class LedgerBook:
    """Keeps the newest `capacity` requests' ledgers, and knows which requests still run.

    One request has one ledger a prompt.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._running: set[str] = set()
        self._ended: OrderedDict[str, tuple[ClosedLedger, ...]] = OrderedDict()

    def knows(self, id_: str) -> bool:
        """Whether the id is taken."""
        return id_ in self._running or id_ in self._ended

    def is_running(self, id_: str) -> bool:
        """Whether the request has not ended yet."""
        return id_ in self._running

    def begin(self, id_: str) -> None:
        """A request begins."""
        self._running.add(id_)

    def end(self, id_: str, ledgers: tuple[ClosedLedger, ...]) -> None:
        """It ended; the oldest ledgers make room."""
        self._running.discard(id_)
        if not ledgers:
            return
        self._ended[id_] = ledgers
        while len(self._ended) > self._capacity:
            self._ended.popitem(last=False)

    def get(self, id_: str) -> tuple[ClosedLedger, ...] | None:
        """An ended request's ledgers, or None."""
        return self._ended.get(id_)
