"""The `Server-Timing` header (https://www.w3.org/TR/server-timing/): the ledger in one line."""

import time
from collections.abc import Sequence
from typing import Final

from netgain.ledger.stages import LedgerStage
from netgain.server.generation import Generation

_PARTS: Final = {
    "queue": frozenset({LedgerStage.QUEUE}),
    "prefill": frozenset(
        {
            LedgerStage.KV_LOOKUP,
            LedgerStage.KV_LOAD,
            LedgerStage.KV_TRANSFER,
            LedgerStage.PREFILL,
            LedgerStage.SCHEDULE,
        }
    ),
    "decode": frozenset({LedgerStage.DECODE, LedgerStage.PREEMPTED, LedgerStage.RECOMPUTE}),
}


def server_timing(generations: Sequence[Generation]) -> str:
    """Milliseconds in queue, prefill and decode (of several choices the longest), and in all.

    `total` counts from the request's first byte to now, so it holds what the parts do not:
    receiving, tokenising, the way between processes, detokenising.
    """
    parts = [
        (name, max((one.seconds_in(stages) for one in generations), default=0.0))
        for name, stages in _PARTS.items()
    ]
    start_ns = min((one.start_ns for one in generations), default=time.monotonic_ns())
    parts.append(("total", (time.monotonic_ns() - start_ns) / 1e9))
    return ", ".join(f"{name};dur={seconds * 1e3:.3f}" for name, seconds in parts)
