"""`vllm bench serve`: its serving result."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from netgain.lab.foreign.result import ForeignResult, Tool, cell
from netgain.lab.metrics.columns import BoolArray, FloatArray, RequestColumns
from netgain.lab.record import RequestRecord, TokenCounting
from netgain.lab.run_header import LoadKind, RunHeader
from netgain.lab.slo import Objective, ServiceLevel
from netgain.report.document import Basis, Column, Table

_DEFINITIONS: Final = (
    "Clock zero is the send, also in open loop: time a request waited in the client is not in it.",
    "TTFT ends at the first event with choices, be it empty or only a role. E2EL ends at the last.",
    "ITL is the gap between events with choices, however many tokens they carry.",
    "TPOT = (E2EL - TTFT) / (n - 1); requests of one token are left out of it, but count as TPOT "
    "0, a pass, in goodput. Failed requests are in no latency and no throughput.",
    "Every rate is over the whole run: nothing is trimmed.",
)
_SHORT: Final = {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "e2el": "E2EL"}
_GOODPUT: Final = {Objective.TTFT: "ttft", Objective.TPOT: "tpot", Objective.E2E: "e2el"}


def as_vllm(
    header: RunHeader, records: Sequence[RequestRecord], slo: ServiceLevel | None = None
) -> ForeignResult:
    """The run as `vllm bench serve` reports it; goodput for the SLO's ttft, tpot and e2e limits."""
    columns = RequestColumns.of(header, records)
    success = columns.answered & ~np.isnan(columns.first_event_s)
    ttft = (columns.first_event_s - columns.sent_s)[success]
    e2el = (columns.last_choice_s - columns.sent_s)[success]
    output = _output_lengths(columns)[success]
    several = output > 1
    tpot = np.where(several, (e2el - ttft) / np.where(several, output - 1, 1), 0.0)
    times, gaps = _choice_events(columns, success)
    duration_s = float(columns.gone_s.max()) if len(columns) else 0.0
    per_s = 1 / duration_s if duration_s > 0 else 0.0
    prompts = float(np.nan_to_num(columns.prompt_tokens[success]).sum())

    values: dict[str, float | None] = {
        "duration": duration_s,
        "completed": int(success.sum()),
        "failed": int((~success).sum()),
        "total_input_tokens": prompts,
        "total_output_tokens": float(output.sum()),
        "request_throughput": success.sum() * per_s,
        "request_goodput": None,
        "output_throughput": output.sum() * per_s,
        "total_token_throughput": (prompts + output.sum()) * per_s,
        "max_output_tokens_per_s": _busiest_second(columns, success, times),
        "max_concurrent_requests": _most_at_once(columns.sent_s[success], ttft, e2el),
    }
    missing = {}
    if slo is None:
        missing["request_goodput"] = "Give --slo."
    else:
        values["request_goodput"] = _good(slo, ttft, tpot, e2el) * per_s
        if slo.limit(Objective.ITL):
            missing["request_goodput: itl"] = "It knows no ITL objective; the others are counted."
    for name, seconds in (("ttft", ttft), ("tpot", tpot[several]), ("itl", gaps), ("e2el", e2el)):
        values |= _statistics(name, seconds)
    if header.load is LoadKind.CLOSED:
        missing["client_queue_time"] = (
            "It starts every request at once and queues them at a semaphore; netgain's clients "
            "send the next request when the last was answered."
        )
    return ForeignResult(
        Tool.VLLM,
        "Serving Benchmark Result",
        "vllm/benchmarks/serve.py of vLLM at 009e6d4a",
        values,
        (_table(values),),
        _DEFINITIONS + _caveats(columns, success),
        missing,
    )


def _output_lengths(columns: RequestColumns) -> FloatArray:
    """[N] the usage's count; without one, the client's (vLLM would tokenise the text)."""
    told = np.array(
        [0 if r.usage is None else r.usage.completion_tokens for r in columns.records],
        dtype=np.float64,
    )
    return np.where(told > 0, told, columns.output_tokens)


def _choice_events(columns: RequestColumns, success: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Times of all events with choices of the successful requests, and the gaps between them."""
    empty = [(n, at) for n, r in enumerate(columns.records) for at in r.empty_events_s]
    of = np.concatenate([columns.event_request, np.array([n for n, _ in empty], dtype=np.int64)])
    at_s = np.concatenate([columns.event_at_s, np.array([at for _, at in empty])])
    order = np.lexsort((at_s, of))
    of, at_s = of[order], at_s[order]
    of, at_s = of[success[of]], at_s[success[of]]
    return at_s, (at_s[1:] - at_s[:-1])[of[1:] == of[:-1]]


def _busiest_second(columns: RequestColumns, success: BoolArray, times_s: FloatArray) -> float:
    """Events (it says tokens) in the fullest second, counted from the first send."""
    if not len(times_s):
        return 0.0
    return float(np.bincount((times_s - columns.sent_s[success].min()).astype(np.int64)).max())


def _most_at_once(sent_s: FloatArray, ttft: FloatArray, e2el: FloatArray) -> float:
    """Peak number of [send, last event) intervals that overlap."""
    if not len(ttft):
        return 0.0
    when = np.concatenate([sent_s, sent_s + e2el])
    step = np.concatenate([np.ones(len(sent_s)), -np.ones(len(sent_s))])
    return float(np.cumsum(step[np.lexsort((step, when))]).max())


def _good(slo: ServiceLevel, ttft: FloatArray, tpot: FloatArray, e2el: FloatArray) -> float:
    seconds = {"ttft": ttft, "tpot": tpot, "e2el": e2el}
    good = np.ones(len(ttft), dtype=np.bool_)
    known = [limit for limit in slo.limits if limit.objective in _GOODPUT]
    for limit in known:
        good &= seconds[_GOODPUT[limit.objective]] <= limit.limit_s
    return float(good.sum()) if known else 0.0


def _statistics(name: str, seconds: FloatArray) -> dict[str, float | None]:
    """In ms; all 0 when there is no value, as it prints."""
    ms = seconds * 1000 if len(seconds) else np.zeros(1)
    return {
        f"mean_{name}_ms": float(ms.mean()),
        f"median_{name}_ms": float(np.median(ms)),
        f"std_{name}_ms": float(ms.std()),
        f"p99_{name}_ms": float(np.percentile(ms, 99)),
    }


def _caveats(columns: RequestColumns, success: BoolArray) -> tuple[str, ...]:
    answered = [r for r, ok in zip(columns.records, success, strict=True) if ok]
    said = []
    bare = sum(r.usage is None and r.counting is TokenCounting.EVENTS for r in answered)
    if bare:
        said.append(
            f"{bare} answers had no usage: the tool would tokenise their text, here an event is "
            "a token."
        )
    return tuple(said)


def _table(values: dict[str, float | None]) -> Table:
    lines = [
        ("Successful requests", "completed"),
        ("Failed requests", "failed"),
        ("Benchmark duration (s)", "duration"),
        ("Total input tokens", "total_input_tokens"),
        ("Total generated tokens", "total_output_tokens"),
        ("Request throughput (req/s)", "request_throughput"),
        ("Request goodput (req/s)", "request_goodput"),
        ("Output token throughput (tok/s)", "output_throughput"),
        ("Peak output token throughput (tok/s)", "max_output_tokens_per_s"),
        ("Peak concurrent requests", "max_concurrent_requests"),
        ("Total token throughput (tok/s)", "total_token_throughput"),
    ]
    for name, short in _SHORT.items():
        lines += [
            (f"Mean {short} (ms)", f"mean_{name}_ms"),
            (f"Median {short} (ms)", f"median_{name}_ms"),
            (f"P99 {short} (ms)", f"p99_{name}_ms"),
        ]
    return Table(
        "as_vllm",
        "Serving Benchmark Result",
        (Column("metric", "Metric"), Column("value", "Value", basis=Basis.MEASURED)),
        tuple({"metric": label, "value": cell(values[key])} for label, key in lines),
    )
