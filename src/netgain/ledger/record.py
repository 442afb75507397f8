"""What a ledger holds, as values: passed between processes, returned to clients, exported.

Times are integer nanoseconds of one clock domain until they are rendered; `shifted` moves a record
from one process's clock into another's by a measured offset.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from netgain.ledger.stages import HandoffKind, LedgerStage, Technique

_NS_PER_S: Final = 1e9


class Interval(msgspec.Struct, frozen=True, array_like=True):
    """One stage, from `start_ns` to `end_ns`."""

    stage: LedgerStage
    start_ns: int
    end_ns: int


class Handoff(msgspec.Struct, frozen=True, array_like=True):
    """One kind of crossing of one request: `count` messages, first start to last end.

    `overlapped_ns` is the part of the crossing's time during which the request's next work was
    already running, so that nobody waited for it.
    """

    kind: HandoffKind
    source: str
    target: str
    bytes: int
    tokens: int
    start_ns: int
    end_ns: int
    overlapped_ns: int = 0
    ok: bool = True
    count: int = 1


class NetGain(msgspec.Struct, frozen=True, array_like=True):
    """A technique's modelled saving and its measured cost, in seconds."""

    saved_s: float
    cost_s: float

    @property
    def net_s(self) -> float:
        """Saved less cost; negative when the technique lost."""
        return self.saved_s - self.cost_s


class LedgerRecord(msgspec.Struct, frozen=True, array_like=True):
    """One process's part of a request's ledger."""

    stages: tuple[Interval, ...]
    handoffs: tuple[Handoff, ...] = ()
    cost_s: float = 0.0
    interference_s: float = 0.0
    net_gain: dict[Technique, NetGain] = {}

    def shifted(self, offset_ns: int) -> "LedgerRecord":
        """The same record with `offset_ns` added to every time."""
        return LedgerRecord(
            tuple(
                Interval(i.stage, i.start_ns + offset_ns, i.end_ns + offset_ns) for i in self.stages
            ),
            tuple(
                msgspec.structs.replace(
                    h, start_ns=h.start_ns + offset_ns, end_ns=h.end_ns + offset_ns
                )
                for h in self.handoffs
            ),
            self.cost_s,
            self.interference_s,
            self.net_gain,
        )


class StageJSON(msgspec.Struct, frozen=True):
    """One stage as clients see it; seconds since the request's first byte."""

    stage: LedgerStage
    start_s: float
    end_s: float


class HandoffJSON(msgspec.Struct, frozen=True, rename={"source": "from", "target": "to"}):
    """One handoff as clients see it; seconds since the request's first byte."""

    kind: HandoffKind
    source: str
    target: str
    bytes: int
    tokens: int
    start_s: float
    end_s: float
    overlapped_s: float
    ok: bool
    count: int


class NetGainJSON(msgspec.Struct, frozen=True):
    """A technique's gain as clients see it."""

    saved_s: float
    cost_s: float
    net_s: float


class LedgerJSON(msgspec.Struct, frozen=True):
    """A whole request's ledger as clients see it.

    `e2e_s` is timed on its own (at the socket, where there is one), not summed from the stages;
    `other_s` is what the stages leave unexplained. `cost_s` is measured engine time shared out by
    the calibrated step-time model; `interference_s` and `net_gain` savings are calibrated
    estimates, the net gain's costs are measured. `trace_id`, where the request
    came with a `traceparent`, is its trace's.
    """

    e2e_s: float
    ttft_s: float | None
    stages: tuple[StageJSON, ...]
    other_s: float
    cost_s: float
    interference_s: float
    handoffs: tuple[HandoffJSON, ...]
    net_gain: dict[Technique, NetGainJSON]
    trace_id: str | msgspec.UnsetType = msgspec.UNSET


def covered_ns(stages: Iterable[Interval], start_ns: int, end_ns: int) -> int:
    """Nanoseconds of [start_ns, end_ns] that at least one stage covers."""
    covered = 0
    reached = start_ns
    for interval in sorted(stages, key=lambda i: i.start_ns):
        begin = max(interval.start_ns, reached)
        end = min(interval.end_ns, end_ns)
        if end > begin:
            covered += end - begin
            reached = end
    return covered


def render(
    record: LedgerRecord, start_ns: int, end_ns: int, first_token_ns: int | None
) -> LedgerJSON:
    """The JSON form of a complete record, timed from `start_ns` to `end_ns` by the caller."""

    def seconds(at_ns: int) -> float:
        return (at_ns - start_ns) / _NS_PER_S

    unexplained = end_ns - start_ns - covered_ns(record.stages, start_ns, end_ns)
    return LedgerJSON(
        e2e_s=seconds(end_ns),
        ttft_s=None if first_token_ns is None else seconds(first_token_ns),
        stages=tuple(
            StageJSON(i.stage, seconds(i.start_ns), seconds(i.end_ns)) for i in record.stages
        ),
        other_s=unexplained / _NS_PER_S,
        cost_s=record.cost_s,
        interference_s=record.interference_s,
        handoffs=tuple(
            HandoffJSON(
                h.kind,
                h.source,
                h.target,
                h.bytes,
                h.tokens,
                seconds(h.start_ns),
                seconds(h.end_ns),
                h.overlapped_ns / _NS_PER_S,
                h.ok,
                h.count,
            )
            for h in record.handoffs
        ),
        net_gain={
            technique: NetGainJSON(gain.saved_s, gain.cost_s, gain.net_s)
            for technique, gain in record.net_gain.items()
        },
    )
