"""A run's charts: distributions, its course over time, single requests by stage."""

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from netgain.lab.client_vs_ledger import read_ledger
from netgain.lab.metrics.blocks import TimeBlocks
from netgain.lab.metrics.columns import FloatArray
from netgain.lab.metrics.grouped import sums
from netgain.lab.metrics.outstanding import Outstanding
from netgain.lab.metrics.quantiles import WeightedSample
from netgain.lab.metrics.run_metrics import MeasuredRun
from netgain.lab.record import RequestRecord
from netgain.report.document import Axis, Chart, Mark, Series

_CDF_POINTS: Final = 200
_MOST_SLICES: Final = 120
_MOST_DOTS: Final = 2000
_MOST_SPANS: Final = 100

Span = tuple[str, float, float]
"""A stage, from, to; seconds from the run's zero."""


def run_charts(run: MeasuredRun) -> tuple[Chart, ...]:
    """Latency distributions; tokens, answers, requests under way and TTFT over time."""
    if not len(run.columns):
        return ()
    return tuple(
        chart
        for chart in (_cdf(run), _tokens(run), _answers(run), _under_way(run), _ttft(run))
        if any(len(series.x) for series in chart.series)
    )


def timeline(run: MeasuredRun) -> Chart | None:
    """Requests by stage, spread evenly over the run: the ledger's stages where there is one.

    The server's clock is laid so that half of what TTFT takes longer at the client lies before it.
    Without a ledger the stages are the client's view: waiting to be sent, waiting for the first
    token, streaming. None when no request was sent.
    """
    sent = [r for r in run.columns.records if r.sent_s is not None]
    every = -(-len(sent) // _MOST_SPANS) or 1
    spans: dict[str, tuple[list[float], list[float], list[str]]] = {}
    for record in sent[::every]:
        for stage, from_s, to_s in _stages(record):
            if to_s <= from_s:
                continue
            starts, ends, rows = spans.setdefault(stage, ([], [], []))
            starts.append(from_s)
            ends.append(to_s)
            rows.append(f"request {record.index}")
    if not spans:
        return None
    return Chart(
        "timeline",
        "Requests by stage",
        Axis("time", "s"),
        Axis("request"),
        tuple(
            Series(
                stage,
                starts,
                rows,
                Mark.SPANS,
                x_end=ends,
                texts=[f"{stage} {b - a:.4g} s" for a, b in zip(starts, ends, strict=True)],
            )
            for stage, (starts, ends, rows) in spans.items()
        ),
    )


def _stages(record: RequestRecord) -> Sequence[Span]:
    sent_s = record.intended_s if record.sent_s is None else record.sent_s
    first_s, last_s = record.first_token_s, record.last_token_s
    try:
        ledger = read_ledger(record)
    except msgspec.MsgspecError:
        ledger = None
    waited = ("client queue", record.intended_s, sent_s)
    if ledger is not None:
        zero_s = sent_s
        if first_s is not None and ledger.ttft_s is not None:
            zero_s += max(0.0, first_s - sent_s - ledger.ttft_s) / 2
        return [waited, *((s.stage, zero_s + s.start_s, zero_s + s.end_s) for s in ledger.stages)]
    end_s = record.end_s if record.end_s is not None else (last_s or sent_s)
    if first_s is None or last_s is None:
        return [waited, ("no answer", sent_s, end_s)]
    rest = "stream" if record.failure is None else "broken stream"
    return [waited, ("wait for first token", sent_s, first_s), (rest, first_s, last_s)]


def _cdf(run: MeasuredRun) -> Chart:
    inside = run.metrics.window.holds(run.columns.start_s)
    gaps = run.token_gaps
    theirs = inside[gaps.request]
    samples = {
        "TTFT": WeightedSample.of(_there(run.times.ttft[inside])),
        "ITL": WeightedSample.of(gaps.seconds[theirs], gaps.tokens[theirs]),
        "E2E": WeightedSample.of(_there(run.times.e2e[inside])),
    }
    return Chart(
        "latency_cdf",
        "Share of requests (ITL: of token gaps) at most this slow",
        Axis("latency", "s", log=True),
        Axis("share", "fraction"),
        tuple(_cdf_series(name, sample) for name, sample in samples.items() if sample.size),
    )


def _cdf_series(name: str, sample: WeightedSample) -> Series:
    shares = np.linspace(0, 1, _CDF_POINTS + 1)
    points = [(sample.quantile(float(share)), float(share)) for share in shares]
    # A logarithmic axis has no room for what came at once.
    shown = [(x, y) for x, y in points if x > 0]
    return Series(name, [x for x, _ in shown], [y for _, y in shown], Mark.LINE)


def _slices(run: MeasuredRun) -> TimeBlocks:
    """Equal slices of the whole run, warm-up and drain included."""
    last_s = max(float(run.columns.gone_s.max()), run.metrics.window.to_s, 1e-3)
    return TimeBlocks(0.0, last_s, min(_MOST_SLICES, max(10, int(last_s))))


def _tokens(run: MeasuredRun) -> Chart:
    slices = _slices(run)
    tokens = sums(slices.of(run.columns.event_at_s), run.columns.event_tokens, slices.count)
    return _per_second("throughput_over_time", "Output tokens", "tokens/s", slices, tokens)


def _answers(run: MeasuredRun) -> Chart:
    slices = _slices(run)
    ended = run.columns.answered & ~np.isnan(run.columns.end_s)
    answers = sums(slices.of(run.columns.end_s[ended]), np.ones(int(ended.sum())), slices.count)
    return _per_second("answers_over_time", "Answers", "requests/s", slices, answers)


def _per_second(name: str, what: str, unit: str, slices: TimeBlocks, amounts: FloatArray) -> Chart:
    rates = (amounts / slices.length_s).tolist()
    return Chart(
        name,
        f"{what} over time, warm-up and drain included",
        Axis("time", "s"),
        Axis(what.lower(), unit),
        (Series(what.lower(), slices.edges_s[:-1].tolist(), rates, Mark.STEPS),),
    )


def _under_way(run: MeasuredRun) -> Chart:
    slices = _slices(run)
    outstanding = Outstanding.of(run.columns.start_s, run.columns.gone_s)
    levels = outstanding.mean_between(slices.edges_s)
    return Chart(
        "outstanding_over_time",
        "Requests under way",
        Axis("time", "s"),
        Axis("requests"),
        (Series("under way", slices.edges_s[:-1].tolist(), levels.tolist(), Mark.STEPS),),
    )


def _ttft(run: MeasuredRun) -> Chart:
    heard = np.flatnonzero(~np.isnan(run.times.ttft))
    every = max(1, -(-len(heard) // _MOST_DOTS))
    shown = heard[::every]
    return Chart(
        "ttft_over_time",
        "TTFT by the time the request started",
        Axis("time", "s"),
        Axis("TTFT", "s"),
        (
            Series(
                "TTFT",
                run.columns.start_s[shown].tolist(),
                run.times.ttft[shown].tolist(),
                Mark.POINTS,
            ),
        ),
    )


def _there(values: FloatArray) -> FloatArray:
    return values[~np.isnan(values)]
