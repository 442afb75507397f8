"""The ledger of one request while it runs, in one process."""

from netgain.ledger.record import Handoff, Interval, LedgerRecord, NetGain
from netgain.ledger.stages import HandoffKind, LedgerStage, Technique


class RequestLedger:
    """Stages that touch by construction: one begins where the last ended.

    Appending a stage costs a list append; nothing is formatted until the request ends.
    """

    __slots__ = ("_gains", "_handoffs", "_stages", "cost_s", "end_ns", "interference_s", "start_ns")

    def __init__(self, start_ns: int) -> None:
        self.start_ns = start_ns
        self.end_ns = start_ns
        self.cost_s = 0.0
        self.interference_s = 0.0
        self._stages: list[tuple[LedgerStage, int, int]] = []
        self._handoffs: dict[HandoffKind, Handoff] = {}
        self._gains: dict[Technique, NetGain] = {}

    def stage(self, stage: LedgerStage, end_ns: int, *, merge: bool = False) -> None:
        """Says that since the last stage ended, and until `end_ns`, the request was in `stage`.

        A stage of no length is dropped. With `merge`, a stage equal to the last one extends it.
        """
        if end_ns <= self.end_ns:
            return
        if merge and self._stages and self._stages[-1][0] is stage:
            self._stages[-1] = (stage, self._stages[-1][1], end_ns)
        else:
            self._stages.append((stage, self.end_ns, end_ns))
        self.end_ns = end_ns

    def handoff(self, handoff: Handoff) -> None:
        """Adds one crossing; crossings of one kind are summed, first start to last end."""
        seen = self._handoffs.get(handoff.kind)
        if seen is None:
            self._handoffs[handoff.kind] = handoff
            return
        self._handoffs[handoff.kind] = Handoff(
            handoff.kind,
            handoff.source,
            handoff.target,
            seen.bytes + handoff.bytes,
            seen.tokens + handoff.tokens,
            min(seen.start_ns, handoff.start_ns),
            max(seen.end_ns, handoff.end_ns),
            seen.overlapped_ns + handoff.overlapped_ns,
            seen.ok and handoff.ok,
            seen.count + handoff.count,
        )

    def gain(self, technique: Technique, saved_s: float, cost_s: float) -> None:
        """Adds to a technique's net gain."""
        seen = self._gains.get(technique, NetGain(0.0, 0.0))
        self._gains[technique] = NetGain(seen.saved_s + saved_s, seen.cost_s + cost_s)

    def adopt(self, record: LedgerRecord) -> None:
        """Appends another process's part, already in this clock domain.

        The gap between the two parts, on either side, is the crossing between the processes.
        """
        if record.stages:
            self.stage(LedgerStage.IPC, record.stages[0].start_ns)
            for interval in record.stages:
                self.stage(interval.stage, interval.end_ns)
        for handoff in record.handoffs:
            self.handoff(handoff)
        for technique, gain in record.net_gain.items():
            self.gain(technique, gain.saved_s, gain.cost_s)
        self.cost_s += record.cost_s
        self.interference_s += record.interference_s

    def record(self) -> LedgerRecord:
        """The ledger so far, as a value."""
        return LedgerRecord(
            tuple(Interval(*stage) for stage in self._stages),
            tuple(self._handoffs.values()),
            self.cost_s,
            self.interference_s,
            dict(self._gains),
        )
