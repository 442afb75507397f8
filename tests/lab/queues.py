"""Servers whose right answers are known: records of a simulated queue, and of loads upon it."""

import math

import numpy as np

from netgain.lab.record import RequestRecord, TokenCounting, TokenEvent, Usage
from netgain.lab.run_header import CacheState, LoadKind, RunHeader


def header(
    load: LoadKind = LoadKind.OPEN,
    duration_s: float = 60.0,
    rate: float | None = None,
    concurrency: int | None = None,
    cache: CacheState = CacheState.COLD,
) -> RunHeader:
    return RunHeader(
        load=load,
        rate=rate,
        concurrency=concurrency,
        duration_s=duration_s,
        workload="synthetic",
        target="http://127.0.0.1:1",
        model="model",
        api="chat",
        seed=0,
        cache=cache,
        started_unix_s=0.0,
    )


def poisson_run(
    rate: float,
    duration_s: float,
    seed: int,
    service_s: float = 0.05,
    servers: int = 1,
    tokens: int = 4,
    token_gap_s: float = 0.01,
    drain_s: float = math.inf,
) -> tuple[RunHeader, list[RequestRecord]]:
    """M/M/c, first come first served: a first token takes a service, the rest stream beside it.

    With one server TTFT is the sojourn time of M/M/1: exponential with rate 1 / service_s - rate.
    What is not answered `drain_s` after the last start is left without an end.
    """
    draw = np.random.default_rng(seed)
    count = int(draw.poisson(rate * duration_s))
    starts = np.sort(draw.uniform(0, duration_s, count))
    free = [0.0] * servers
    records = []
    for index, (start, service) in enumerate(
        zip(starts, draw.exponential(service_s, count), strict=True)
    ):
        server = min(range(servers), key=free.__getitem__)
        first = float(max(start, free[server]) + service)
        free[server] = first
        records.append(answered(index, start, [first + i * token_gap_s for i in range(tokens)]))
    return header(LoadKind.OPEN, duration_s, rate), records


def answered(
    index: int, start_s: float, token_times_s: list[float], **changes: object
) -> RequestRecord:
    """A whole answer of one token an event, sent when it was meant to be."""
    fields: dict[str, object] = {
        "index": index,
        "request_class": "chat",
        "conversation": index,
        "intended_s": float(start_s),
        "sent_s": float(start_s),
        "first_byte_s": token_times_s[0],
        "first_event_s": token_times_s[0],
        "first_token_s": token_times_s[0],
        "first_output_s": token_times_s[0],
        "last_choice_s": token_times_s[-1],
        "last_token_s": token_times_s[-1],
        "end_s": token_times_s[-1],
        "events": tuple(TokenEvent(float(t), 1) for t in token_times_s),
        "output_tokens": len(token_times_s),
        "counting": TokenCounting.USAGE,
        "prompt_tokens": 10,
        "usage": Usage(10, len(token_times_s)),
        "finish_reason": "length",
        "status": 200,
    }
    return RequestRecord(**{**fields, **changes})  # type: ignore[arg-type]
