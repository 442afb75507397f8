"""AIPerf: its console table."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from netgain.lab.foreign.result import ForeignResult, Tool, cell
from netgain.lab.metrics.columns import BoolArray, FloatArray, RequestColumns
from netgain.lab.record import RequestRecord, TokenCounting
from netgain.lab.run_header import RunHeader
from netgain.lab.slo import Objective, ServiceLevel
from netgain.report.document import Basis, Cell, Column, Table

_MS: Final = 1000.0
_STATISTICS: Final = ("avg", "min", "max", "p99", "p90", "p50", "std")
_RECORD_METRICS: Final = {
    "time_to_first_token": "Time to First Token (ms)",
    "time_to_second_token": "Time to Second Token (ms)",
    "request_latency": "Request Latency (ms)",
    "inter_token_latency": "Inter Token Latency (ms)",
    "inter_chunk_latency": "Inter Chunk Latency (ms)",
    "output_token_throughput_per_user": "Output Token Throughput Per User (tokens/sec/user)",
    "output_sequence_length": "Output Sequence Length (tokens)",
    "input_sequence_length": "Input Sequence Length (tokens)",
}
_RUN_METRICS: Final = {
    "output_token_throughput": "Output Token Throughput (tokens/sec)",
    "request_throughput": "Request Throughput (requests/sec)",
    "goodput": "Goodput (requests/sec)",
    "request_count": "Request Count (requests)",
    "error_request_count": "Error Request Count (requests)",
    "benchmark_duration": "Benchmark Duration (sec)",
}
_DEFINITIONS: Final = (
    "Clock zero is the send, also in open loop. TTFT ends at the first event with text, reasoning "
    "included; request latency at the last.",
    "ITL = (request latency - TTFT) / (OSL - 1), one value a request; none for OSL < 2. Per-user "
    "throughput is 1 / ITL. Inter chunk latency is pooled over requests; a request with two events "
    "at one time has none.",
    "Duration runs from the first send to the last event of a valid request. A request without a "
    "metric that goodput asks for is not good.",
)
_TAGS: Final = {
    Objective.TTFT: "time_to_first_token",
    Objective.TPOT: "inter_token_latency",
    Objective.E2E: "request_latency",
}


def as_aiperf(
    header: RunHeader, records: Sequence[RequestRecord], slo: ServiceLevel | None = None
) -> ForeignResult:
    """The run as AIPerf reports it; goodput for the SLO's ttft, tpot (its ITL) and e2e limits."""
    columns = RequestColumns.of(header, records)
    valid = columns.answered & (np.diff(columns.event_from) > 0)
    per_request = _per_request(columns, valid)
    values: dict[str, float | None] = {}
    for name, series in per_request.items():
        values |= _statistics(name, series[~np.isnan(series)])
    values |= _statistics("inter_chunk_latency", _chunk_gaps(columns, valid))
    duration_s = 0.0
    if valid.any():
        duration_s = float(columns.last_token_s[valid].max() - columns.sent_s[valid].min())
    tokens = per_request["output_sequence_length"][valid]
    values |= {
        "output_token_throughput": _over(float(tokens.sum()), duration_s),
        "request_throughput": _over(int(valid.sum()), duration_s),
        "request_count": int(valid.sum()),
        "error_request_count": int((~valid).sum()),
        "benchmark_duration": duration_s,
        "goodput": None,
    }
    missing = {}
    if slo is None:
        missing["goodput"] = "Give --slo."
    else:
        values["goodput"] = _over(_good(slo, per_request, valid), duration_s)
        if slo.limit(Objective.ITL):
            missing["goodput: itl"] = "Its ITL is one mean a request; the other limits are counted."
    return ForeignResult(
        Tool.AIPERF,
        "NVIDIA AIPerf | LLM Metrics",
        "aiperf/metrics/types of AIPerf at db4f6397",
        values,
        (_table(values),),
        _DEFINITIONS + _caveats(columns, valid),
        missing,
    )


def _per_request(columns: RequestColumns, valid: BoolArray) -> dict[str, FloatArray]:
    """[N] each, in AIPerf's display units; NaN where a request has no value."""
    counts = np.diff(columns.event_from)
    first = np.full(len(columns), np.nan)
    second = np.full(len(columns), np.nan)
    last = np.full(len(columns), np.nan)
    some, two = valid & (counts > 0), valid & (counts > 1)
    first[some] = columns.event_at_s[columns.event_from[:-1][some]]
    second[two] = columns.event_at_s[columns.event_from[:-1][two] + 1]
    last[some] = columns.event_at_s[columns.event_from[1:][some] - 1]
    osl = np.where(valid, columns.output_tokens, np.nan)
    several = osl > 1
    itl = np.where(several, (last - first) / np.where(several, osl - 1, 1), np.nan)
    flowing = itl > 0
    return {
        "time_to_first_token": _MS * (first - columns.sent_s),
        "time_to_second_token": _MS * (second - first),
        "request_latency": _MS * (last - columns.sent_s),
        "inter_token_latency": _MS * itl,
        "output_token_throughput_per_user": np.where(
            flowing, 1 / np.where(flowing, itl, 1), np.nan
        ),
        "output_sequence_length": osl,
        "input_sequence_length": np.where(valid, _prompt_tokens(columns), np.nan),
    }


def _prompt_tokens(columns: RequestColumns) -> FloatArray:
    """[N] the client's count where it has one: AIPerf tokenises the prompt itself."""
    own = np.array([r.prompt_tokens for r in columns.records], dtype=np.float64)
    return np.asarray(np.where(np.isnan(own), columns.prompt_tokens, own))


def _chunk_gaps(columns: RequestColumns, valid: BoolArray) -> FloatArray:
    """Milliseconds, pooled; a request with a gap of 0 gives none."""
    same = columns.event_request[1:] == columns.event_request[:-1]
    gaps = np.diff(columns.event_at_s)[same]
    request = columns.event_request[1:][same]
    stuck = np.zeros(len(columns), dtype=np.bool_)
    stuck[request[gaps <= 0]] = True
    return np.asarray(_MS * gaps[(valid & ~stuck)[request]])


def _good(slo: ServiceLevel, per_request: dict[str, FloatArray], valid: BoolArray) -> float:
    good = valid.copy()
    known = [limit for limit in slo.limits if limit.objective in _TAGS]
    for limit in known:
        good &= np.less_equal(per_request[_TAGS[limit.objective]], _MS * limit.limit_s)
    return float(good.sum()) if known else 0.0


def _statistics(name: str, values: FloatArray) -> dict[str, float | None]:
    if not len(values):
        return {f"{name}.{statistic}": None for statistic in _STATISTICS}
    p99, p90, p50 = (float(p) for p in np.percentile(values, [99, 90, 50]))
    return {
        f"{name}.avg": float(values.mean()),
        f"{name}.min": float(values.min()),
        f"{name}.max": float(values.max()),
        f"{name}.p99": p99,
        f"{name}.p90": p90,
        f"{name}.p50": p50,
        f"{name}.std": float(values.std()),
    }


def _over(amount: float, seconds: float) -> float | None:
    return amount / seconds if seconds > 0 else None


def _caveats(columns: RequestColumns, valid: BoolArray) -> tuple[str, ...]:
    by_usage = sum(
        ok and r.counting is not TokenCounting.TOKENIZER
        for r, ok in zip(columns.records, valid, strict=True)
    )
    if not by_usage:
        return ()
    return (
        f"AIPerf counts tokens by tokenising the text; {by_usage} answers here were counted by the "
        "server or by event.",
    )


def _table(values: dict[str, float | None]) -> Table:
    rows: list[dict[str, Cell]] = [
        {"metric": label, **{s: cell(values[f"{name}.{s}"]) for s in _STATISTICS}}
        for name, label in _RECORD_METRICS.items()
    ]
    rows += [{"metric": label, "avg": cell(values[key])} for key, label in _RUN_METRICS.items()]
    return Table(
        "as_aiperf",
        "NVIDIA AIPerf | LLM Metrics",
        (Column("metric", "Metric"), *(Column(s, s, basis=Basis.MEASURED) for s in _STATISTICS)),
        tuple(rows),
    )
