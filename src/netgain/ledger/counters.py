"""The engine's raw counters: every ratio is derived from these, none is stored."""

import msgspec

from netgain.ledger.record import NetGain
from netgain.ledger.stages import Technique


class EngineCounters(msgspec.Struct, array_like=True):
    """Totals since the engine started, sent with each step's outputs.

    `waiting`, `running` and `kv_blocks_used` are the state now; everything else only grows.
    Prefix hits are counted once, at admission; recompute after preemption is left out.
    """

    waiting: int = 0
    running: int = 0
    kv_blocks_used: int = 0
    kv_blocks_total: int = 0
    kv_blocks_evicted: int = 0
    requests_arrived: int = 0
    requests_finished: int = 0
    requests_aborted: int = 0
    preemptions: int = 0
    recomputed_tokens: int = 0
    prefix_queries: int = 0
    prefix_hits: int = 0
    prefix_queried_tokens: int = 0
    prefix_hit_tokens: int = 0
    steps: int = 0
    step_tokens: int = 0
    prefill_tokens: int = 0
    decode_tokens: int = 0
    busy_s: float = 0.0
    unbilled_s: float = 0.0
    """Part of `busy_s` spent on slices whose request had ended; the rest is on requests' bills."""
    interference_s: float = 0.0
    net_gain: dict[Technique, NetGain] = {}
