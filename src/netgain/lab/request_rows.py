"""One row a request, for CSV."""

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from netgain.lab.metrics.run_metrics import MeasuredRun
from netgain.report.document import Cell

REQUEST_COLUMNS: Final = (
    "index",
    "class",
    "conversation",
    "turn",
    "in_window",
    "intended_s",
    "sent_s",
    "first_byte_s",
    "first_event_s",
    "first_token_s",
    "first_output_s",
    "last_token_s",
    "end_s",
    "ttft_s",
    "ttft_from_sent_s",
    "tpot_s",
    "itl_mean_s",
    "e2e_s",
    "normalised_s",
    "client_queueing_s",
    "prompt_tokens",
    "output_tokens",
    "cached_tokens",
    "events",
    "counting",
    "finish_reason",
    "status",
    "error",
    "message",
)


def request_rows(run: MeasuredRun) -> Iterator[Mapping[str, Cell]]:
    """Rows with the keys of `REQUEST_COLUMNS`, by start; None where a request has no such value."""
    columns, times = run.columns, run.times
    inside = run.metrics.window.holds(columns.start_s)
    itl = run.token_gaps.mean_per_request(len(columns))
    for i, record in enumerate(columns.records):
        yield {
            "index": record.index,
            "class": record.request_class,
            "conversation": record.conversation,
            "turn": record.turn,
            "in_window": bool(inside[i]),
            "intended_s": record.intended_s,
            "sent_s": record.sent_s,
            "first_byte_s": record.first_byte_s,
            "first_event_s": record.first_event_s,
            "first_token_s": record.first_token_s,
            "first_output_s": record.first_output_s,
            "last_token_s": record.last_token_s,
            "end_s": record.end_s,
            "ttft_s": _number(times.ttft[i]),
            "ttft_from_sent_s": _number(times.ttft_from_sent[i]),
            "tpot_s": _number(times.tpot[i]),
            "itl_mean_s": _number(itl[i]),
            "e2e_s": _number(times.e2e[i]),
            "normalised_s": _number(times.normalised[i]),
            "client_queueing_s": _number(times.client_queueing[i]),
            "prompt_tokens": _count(columns.prompt_tokens[i]),
            "output_tokens": _count(columns.output_tokens[i]),
            "cached_tokens": _count(columns.cached_tokens[i]),
            "events": len(record.events),
            "counting": record.counting.value,
            "finish_reason": record.finish_reason,
            "status": record.status,
            "error": None if record.failure is None else record.failure.kind.value,
            "message": None if record.failure is None else record.failure.message,
        }


def _number(value: np.float64) -> float | None:
    return None if np.isnan(value) else float(value)


def _count(value: np.float64) -> int | None:
    return None if np.isnan(value) else int(value)
