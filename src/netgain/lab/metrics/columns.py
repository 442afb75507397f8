"""The records of a run as columns, so that every metric is a few array operations.

N requests, E stream events. A time that never came is NaN.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from netgain.lab.record import RequestRecord, TokenCounting
from netgain.lab.run_header import LoadKind, RunHeader

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class RequestColumns:
    """A run's requests, [N] each unless noted, in the order of `start_s`; seconds from its zero.

    `start_s` is where latency counts from: the intended send time in open loop and replay, so that
    a slow server cannot hide the requests it kept waiting; the sent time in closed loop, where the
    next request is due only when the last was answered.

    `gone_s` is when a request stopped occupying anyone: the answer's end, or the last that was
    heard of a failed one. `output_tokens` is the count the metrics use: the record's own, except
    where it only counted events and the server's usage knows better (never fewer than events).
    `prompt_tokens` is the server's count, or else the client's; NaN where there is neither.

    Events: those of request i are `event_at_s[event_from[i]:event_from[i + 1]]`; `event_request`
    [E] is their request. `event_tokens` [E] may be fractional where only totals are known: the
    tokens after the first event's are then spread evenly over the later events.
    """

    records: tuple[RequestRecord, ...]
    classes: tuple[str, ...]
    class_of: IntArray
    start_s: FloatArray
    intended_s: FloatArray
    sent_s: FloatArray
    first_byte_s: FloatArray
    first_event_s: FloatArray
    first_token_s: FloatArray
    first_output_s: FloatArray
    last_choice_s: FloatArray
    last_token_s: FloatArray
    end_s: FloatArray
    gone_s: FloatArray
    answered: BoolArray
    output_tokens: FloatArray
    prompt_tokens: FloatArray
    cached_tokens: FloatArray
    event_from: IntArray
    event_request: IntArray
    event_at_s: FloatArray
    event_tokens: FloatArray

    def __len__(self) -> int:
        return len(self.records)

    @classmethod
    def of(cls, header: RunHeader, records: Sequence[RequestRecord]) -> "RequestColumns":
        """The columns of a run's records, in whatever order they were written."""
        from_intended = header.load is not LoadKind.CLOSED
        unordered = _times(records, "intended_s")
        if not from_intended:
            sent = _times(records, "sent_s")
            unordered = np.where(np.isnan(sent), unordered, sent)
        order = np.argsort(unordered, kind="stable")
        ordered = tuple(records[i] for i in order)

        class_of_name = {
            name: i for i, name in enumerate(sorted({r.request_class for r in ordered}))
        }
        counts = np.array([len(r.events) for r in ordered], dtype=np.int64)
        event_from = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])
        total = int(event_from[-1])
        event_at_s = np.fromiter(
            map(attrgetter("at_s"), chain.from_iterable(r.events for r in ordered)),
            dtype=np.float64,
            count=total,
        )
        event_tokens = np.fromiter(
            map(attrgetter("tokens"), chain.from_iterable(r.events for r in ordered)),
            dtype=np.float64,
            count=total,
        )
        event_request = np.repeat(np.arange(len(ordered), dtype=np.int64), counts)
        output_tokens = np.array([r.output_tokens for r in ordered], dtype=np.float64)
        known = _usage_totals(ordered)
        spread = ~np.isnan(known)
        output_tokens = np.where(spread, np.maximum(known, counts), output_tokens)
        event_tokens = _spread(event_tokens, event_from, event_request, spread, output_tokens)

        times = {
            name: _times(ordered, name)
            for name in (
                "intended_s",
                "sent_s",
                "first_byte_s",
                "first_event_s",
                "first_token_s",
                "first_output_s",
                "last_choice_s",
                "last_token_s",
                "end_s",
            )
        }
        start_s = unordered[order]
        heard = np.fmax.reduce([start_s, *times.values()])
        return cls(
            records=ordered,
            classes=tuple(class_of_name),
            class_of=np.array([class_of_name[r.request_class] for r in ordered], dtype=np.int64),
            start_s=start_s,
            gone_s=np.where(np.isnan(times["end_s"]), heard, times["end_s"]),
            answered=np.array([r.failure is None for r in ordered], dtype=np.bool_),
            output_tokens=output_tokens,
            prompt_tokens=np.array(
                [r.prompt_tokens if r.usage is None else r.usage.prompt_tokens for r in ordered],
                dtype=np.float64,
            ),
            cached_tokens=np.array(
                [None if r.usage is None else r.usage.cached_tokens for r in ordered],
                dtype=np.float64,
            ),
            event_from=event_from,
            event_request=event_request,
            event_at_s=event_at_s,
            event_tokens=event_tokens,
            **times,
        )


def _times(records: Sequence[RequestRecord], name: str) -> FloatArray:
    return np.array([getattr(r, name) for r in records], dtype=np.float64)


def _usage_totals(records: Sequence[RequestRecord]) -> FloatArray:
    """[N] the server's count where the client had only events to count; NaN elsewhere."""
    return np.array(
        [
            None
            if r.usage is None or r.counting is not TokenCounting.EVENTS
            else r.usage.completion_tokens
            for r in records
        ],
        dtype=np.float64,
    )


def _spread(
    event_tokens: FloatArray,
    event_from: IntArray,
    event_request: IntArray,
    spread: BoolArray,
    output_tokens: FloatArray,
) -> FloatArray:
    """[E] token counts, with the totals of the requests in `spread` shared out among their events.

    The first event is taken to hold one token, so that the mean token gap is the TPOT.
    """
    if not spread.any():
        return event_tokens
    counts = np.diff(event_from)
    alone = counts == 1
    later = np.where(alone, output_tokens, (output_tokens - 1) / np.maximum(counts - 1, 1))
    shared = later[event_request]
    firsts = event_from[:-1][(counts > 1)]
    shared[firsts] = 1.0
    return np.where(spread[event_request], shared, event_tokens)
