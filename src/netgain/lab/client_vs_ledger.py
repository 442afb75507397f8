"""What the client saw against what the server's ledger says: the rest is network and client."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from netgain.lab.metrics.columns import FloatArray
from netgain.lab.record import RequestRecord


class Stage(msgspec.Struct, frozen=True):
    """One ledger stage; seconds since the request's first byte."""

    stage: str
    start_s: float
    end_s: float


class ServerLedger(msgspec.Struct, frozen=True):
    """The part of a request's ledger that is compared (docs/ledger.md has all of it)."""

    e2e_s: float
    ttft_s: float | None
    stages: tuple[Stage, ...]
    other_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Remainder:
    """Client less ledger, seconds, over requests that have both; it may be slightly negative.

    Negative where the server counts on (to the last byte of the answer) after the client saw its
    last token.
    """

    n: int
    mean_s: float
    p50_s: float
    p95_s: float
    p99_s: float
    minimum_s: float
    maximum_s: float

    @classmethod
    def of(cls, seconds: FloatArray) -> "Remainder | None":
        """None when there are none."""
        if not len(seconds):
            return None
        p50, p95, p99 = (float(p) for p in np.percentile(seconds, [50, 95, 99]))
        return cls(
            len(seconds),
            float(seconds.mean()),
            p50,
            p95,
            p99,
            float(seconds.min()),
            float(seconds.max()),
        )


@dataclass(frozen=True, slots=True)
class ClientVsLedger:
    """The comparison over `n` answered requests with a ledger.

    Both sides count from the send: client TTFT = first token - sent, client E2E = last token -
    sent. `client_e2e_s`, `client_ttft_s` and `stage_s` are sums over these requests (ledger stages
    in order of first appearance); with `other_s`, what the ledger itself leaves open, and the
    remainders they add up to `client_e2e_s`. `unreadable`: ledgers of another form.
    """

    n: int
    ttft: Remainder | None
    e2e: Remainder | None
    client_ttft_s: float
    client_e2e_s: float
    ledger_e2e_s: float
    stage_s: Mapping[str, float]
    other_s: float
    unreadable: int


def read_ledger(record: RequestRecord) -> ServerLedger | None:
    """The record's ledger; None when the server offered none. Raises `msgspec.MsgspecError`."""
    return msgspec.json.decode(record.ledger, type=ServerLedger | None)


def client_vs_ledger(records: Sequence[RequestRecord]) -> ClientVsLedger | None:
    """The comparison; None when no answered request has a ledger in the known form."""
    ttft: list[float] = []
    e2e: list[float] = []
    client_ttft_s = client_e2e_s = ledger_e2e_s = other_s = 0.0
    stage_s: dict[str, float] = {}
    count = unreadable = 0
    for record in records:
        if record.failure is not None or record.sent_s is None or record.last_token_s is None:
            continue
        try:
            ledger = read_ledger(record)
        except msgspec.MsgspecError:
            unreadable += 1
            continue
        if ledger is None:
            continue
        count += 1
        seen_s = record.last_token_s - record.sent_s
        e2e.append(seen_s - ledger.e2e_s)
        client_e2e_s += seen_s
        ledger_e2e_s += ledger.e2e_s
        other_s += ledger.other_s
        if ledger.ttft_s is not None and record.first_token_s is not None:
            first_s = record.first_token_s - record.sent_s
            ttft.append(first_s - ledger.ttft_s)
            client_ttft_s += first_s
        for stage in ledger.stages:
            stage_s[stage.stage] = stage_s.get(stage.stage, 0.0) + stage.end_s - stage.start_s
    if not count:
        return None
    return ClientVsLedger(
        count,
        Remainder.of(np.array(ttft)),
        Remainder.of(np.array(e2e)),
        client_ttft_s,
        client_e2e_s,
        ledger_e2e_s,
        stage_s,
        other_s,
        unreadable,
    )
