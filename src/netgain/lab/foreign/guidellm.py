"""guidellm: its console tables and the statistics behind them."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from netgain.lab.foreign.result import ForeignResult, Tool, cell
from netgain.lab.metrics.columns import BoolArray, FloatArray, RequestColumns
from netgain.lab.record import ErrorKind, RequestRecord
from netgain.lab.run_header import RunHeader
from netgain.lab.slo import ServiceLevel
from netgain.report.document import Basis, Column, Table

_MS: Final = 1000.0
_STATISTICS: Final = ("mean", "median", "std_dev", "p95", "p99")
_LATENCIES: Final = {
    "request_latency": "Request Latency (s)",
    "time_to_first_token_ms": "TTFT (ms)",
    "time_to_first_output_token_ms": "TTFOT (ms)",
    "inter_token_latency_ms": "ITL (ms)",
    "time_per_output_token_ms": "TPOT (ms)",
}
_RATES: Final = {
    "request_concurrency.mean": "Concurrency, mean",
    "request_concurrency.median": "Concurrency, median",
    "requests_per_second.mean": "Requests per second",
    "prompt_tokens_per_second.mean": "Input tokens per second",
    "output_tokens_per_second.mean": "Output tokens per second",
    "tokens_per_second.mean": "Total tokens per second",
}
_DEFINITIONS: Final = (
    "Clock zero is the send, also in open loop. TTFT ends at the first event with content, "
    "reasoning or a tool call; TTFOT at the first that is not reasoning.",
    "TPOT = (last token - send) / n: it contains TTFT. ITL = (last token - first) / (n - 1), one "
    "value a request. Request latency ends when the answer's stream does.",
    "ITL and TPOT are weighted by tokens; percentiles take the nearest value below, without "
    "interpolation; a latency that a request does not have counts as 0.",
    "Latencies are of completed requests, rates of all: failed ones count as requests per second.",
)


def as_guidellm(
    header: RunHeader, records: Sequence[RequestRecord], slo: ServiceLevel | None = None
) -> ForeignResult:
    """The run as guidellm reports it, without warm-up or cool-down (its default)."""
    columns = RequestColumns.of(header, records)
    output = _output_tokens(columns)
    latency = _latencies(columns, output)
    completed = columns.answered
    values: dict[str, float | None] = {
        "request_totals.successful": int(completed.sum()),
        "request_totals.incomplete": int(_cut_off(columns).sum()),
        "request_totals.errored": int((~completed & ~_cut_off(columns)).sum()),
    }
    weights = {
        "inter_token_latency_ms": np.maximum(output, 1) - 1,
        "time_per_output_token_ms": output,
    }
    for name, per_request in latency.items():
        weight = weights.get(name, np.ones(len(columns)))[completed]
        values |= _summary(name, np.nan_to_num(per_request[completed]), weight)
    values |= _rates(columns, output)
    missing = {}
    if slo is not None:
        missing["goodput"] = "guidellm has none."
    return ForeignResult(
        Tool.GUIDELLM,
        "Request Latency Statistics and Server Throughput Statistics",
        "src/guidellm/schemas of guidellm 0.8.1",
        values,
        _tables(values),
        _DEFINITIONS,
        missing,
    )


def _cut_off(columns: RequestColumns) -> BoolArray:
    return np.array(
        [r.failure is not None and r.failure.kind is ErrorKind.CANCELLED for r in columns.records],
        dtype=np.bool_,
    )


def _output_tokens(columns: RequestColumns) -> FloatArray:
    """[N] the usage's count, or else one a content event."""
    events = np.diff(columns.event_from)
    return np.array(
        [
            count if r.usage is None else r.usage.completion_tokens
            for r, count in zip(columns.records, events, strict=True)
        ],
        dtype=np.float64,
    )


def _latencies(columns: RequestColumns, output: FloatArray) -> dict[str, FloatArray]:
    """[N] each; NaN where guidellm has None."""
    last_s = np.where(np.isnan(columns.last_token_s), columns.end_s, columns.last_token_s)
    with np.errstate(divide="ignore", invalid="ignore"):
        tpot = np.where(output > 0, (last_s - columns.sent_s) / output, np.nan)
        itl = np.where(
            output > 1, (columns.last_token_s - columns.first_token_s) / (output - 1), np.nan
        )
    return {
        "request_latency": columns.end_s - columns.sent_s,
        "time_to_first_token_ms": _MS * (columns.first_token_s - columns.sent_s),
        "time_to_first_output_token_ms": _MS * (columns.first_output_s - columns.sent_s),
        "inter_token_latency_ms": _MS * itl,
        "time_per_output_token_ms": _MS * tpot,
    }


def _summary(name: str, values: FloatArray, weights: FloatArray) -> dict[str, float | None]:
    """Statistics of the weighted values; all 0 when no value weighs anything."""
    unique, place = np.unique(values, return_inverse=True)
    mass = np.bincount(place, weights, minlength=len(unique))
    unique, mass = unique[mass > 0], mass[mass > 0]
    if not len(unique):
        return {f"{name}.{statistic}": 0.0 for statistic in _STATISTICS}
    probability = mass / mass.sum()
    reached = np.cumsum(probability)
    mean = float(unique @ probability)

    def at(p: float) -> float:
        return float(unique[min(int(np.searchsorted(reached, p, side="left")), len(unique) - 1)])

    return {
        f"{name}.mean": mean,
        f"{name}.median": at(0.5),
        f"{name}.std_dev": float(np.sqrt(((unique - mean) ** 2) @ probability)),
        f"{name}.p95": at(0.95),
        f"{name}.p99": at(0.99),
    }


def _rates(columns: RequestColumns, output: FloatArray) -> dict[str, float | None]:
    """Means over time, of every request; the run lasts from its zero to its last end."""
    if not len(columns):
        return dict.fromkeys(_RATES, 0.0)
    sent = ~np.isnan(columns.sent_s)
    over_s = float(columns.gone_s.max())
    prompts = np.nan_to_num(columns.prompt_tokens)
    mean, median = _concurrency(columns.sent_s[sent], columns.gone_s[sent], over_s)
    return {
        "request_concurrency.mean": mean,
        "request_concurrency.median": median,
        "requests_per_second.mean": _over(len(columns), over_s),
        "prompt_tokens_per_second.mean": _over(prompts.sum(), over_s),
        "output_tokens_per_second.mean": _over(output.sum(), over_s),
        "tokens_per_second.mean": _over(prompts.sum() + output.sum(), over_s),
    }


def _over(amount: float, seconds: float) -> float:
    """0 where all happened at one moment, as guidellm has it."""
    return float(amount) / seconds if seconds > 0 else 0.0


def _concurrency(sent_s: FloatArray, gone_s: FloatArray, over_s: float) -> tuple[float, float]:
    """Time-weighted mean and median of requests under way in [0, over_s]."""
    when = np.concatenate([np.zeros(1), sent_s, gone_s])
    step = np.concatenate([np.zeros(1), np.ones(len(sent_s)), -np.ones(len(gone_s))])
    order = np.argsort(when, kind="stable")
    level = np.maximum(np.cumsum(step[order]), 0)
    lasted = np.diff(np.append(when[order], over_s))
    found = _summary("level", level, lasted)
    return found["level.mean"] or 0.0, found["level.median"] or 0.0


def _tables(values: dict[str, float | None]) -> tuple[Table, ...]:
    columns = (
        Column("metric", "Metric"),
        *(Column(s, s, basis=Basis.MEASURED) for s in _STATISTICS),
    )
    latency = tuple(
        {"metric": label, **{s: cell(values[f"{name}.{s}"]) for s in _STATISTICS}}
        for name, label in _LATENCIES.items()
    )
    rates = tuple({"metric": label, "value": cell(values[key])} for key, label in _RATES.items())
    return (
        Table(
            "as_guidellm_latency",
            "Request Latency Statistics (Completed Requests)",
            columns,
            latency,
        ),
        Table(
            "as_guidellm_throughput",
            "Server Throughput Statistics (All Requests)",
            (Column("metric", "Metric"), Column("value", "Value", basis=Basis.MEASURED)),
            rates,
        ),
    )
