"""What a run has to say, as a report."""

from collections.abc import Mapping, Sequence
from typing import Final

from netgain.lab.bench_charts import run_charts
from netgain.lab.bench_verdict import verdict, warnings
from netgain.lab.foreign.result import ForeignResult, Tool
from netgain.lab.foreign.tools import as_tool
from netgain.lab.latency_table import DEFINITIONS, LABELS, MAIN, OTHER_DEFINITIONS, latency_table
from netgain.lab.ledger_section import where_time_went
from netgain.lab.metrics.estimate import Estimate
from netgain.lab.metrics.lag import LAG_RULE
from netgain.lab.metrics.run_metrics import (
    ClassMetrics,
    Latency,
    MeasuredRun,
    RunMetrics,
    measure_run,
)
from netgain.lab.metrics.trimming import TrimRule
from netgain.lab.record import RequestRecord
from netgain.lab.run_end import RunEnd
from netgain.lab.run_header import LoadKind, RunHeader
from netgain.lab.service_level_section import service_level
from netgain.lab.slo import ServiceLevel
from netgain.report.document import (
    Basis,
    Cell,
    Column,
    Figure,
    Interval,
    Report,
    Section,
    Table,
)


def bench_report(
    header: RunHeader,
    records: Sequence[RequestRecord],
    *,
    trim: TrimRule | None = None,
    slo: ServiceLevel | None = None,
    tool: Tool | None = None,
) -> Report:
    """The report of a run from its file's content alone; with a tool's own numbers if asked."""
    foreign = None if tool is None else as_tool(tool, header, records, slo)
    return report_of(measure_run(header, records, trim=trim, slo=slo), foreign)


def report_of(
    run: MeasuredRun, foreign: ForeignResult | None = None, end: RunEnd | None = None
) -> Report:
    """The same from a run already measured; `end` where it is known how it ended."""
    metrics = run.metrics
    sections = [
        _summary(metrics),
        _latency(run),
        None if metrics.goodput is None else service_level(metrics.goodput, metrics.header),
        _failures(metrics),
        _classes(metrics),
        _course(run),
        where_time_went(run),
        _trust(metrics),
        None if foreign is None else foreign.section(),
        Section("About this run", end.notes) if end is not None and end.notes else None,
    ]
    header = metrics.header
    return Report(
        title=f"Bench of {header.model} at {header.target}",
        sections=tuple(section for section in sections if section is not None),
        verdict=verdict(metrics),
        warnings=warnings(metrics, end),
        context=_context(header),
    )


def _summary(metrics: RunMetrics) -> Section:
    window, out, tokens = metrics.window, metrics.throughput, metrics.tokens
    figures = [
        _figure("window_s", "measured window", window.length_s, "s", window.rule),
        _figure("requests", "requests in the window", metrics.requests, ""),
        _figure("answered", "answered", metrics.answered, ""),
        _figure("failed", "failed", metrics.requests - metrics.answered, ""),
        _sampled("offered_requests_per_s", "offered", out.offered, "requests/s"),
        _sampled("requests_per_s", "answered", out.answered, "requests/s"),
        _sampled("output_tokens_per_s", "output", out.output_tokens, "tokens/s"),
    ]
    if out.total_tokens is not None:
        total = _sampled("total_tokens_per_s", "prompt and output", out.total_tokens, "tokens/s")
        figures.append(total)
    figures.append(_figure("output_tokens", "output tokens of answers", tokens.output_tokens, ""))
    if metrics.goodput is not None:
        goodput = metrics.goodput
        figures += [
            _sampled("goodput_requests_per_s", "goodput", goodput.rate, "requests/s"),
            _sampled("attainment", "attainment", goodput.attainment, "fraction"),
        ]
    if (cache := metrics.cache) is not None:
        figures += [
            _figure(
                "cache_token_hit_rate",
                "cache hits, by tokens",
                cache.token_rate,
                "fraction",
                f"{cache.hit_tokens} / {cache.prompt_tokens}",
            ),
            _figure(
                "cache_request_hit_rate",
                "cache hits, by requests",
                cache.request_rate,
                "fraction",
                f"{cache.hit_requests} / {cache.requests}",
            ),
        ]
    return Section("Summary", _not_available(metrics), tuple(figures))


def _not_available(metrics: RunMetrics) -> tuple[str, ...]:
    """What the run cannot say, and why."""
    said = []
    if metrics.throughput.total_tokens is None:
        said.append(
            "Prompt tokens: not available, the server sent no usage and nobody counted for it "
            "(--tokenizer)."
        )
    if metrics.cache is None:
        said.append("Cache hits by request: not available, the server's usage does not say.")
    return tuple(said)


def _latency(run: MeasuredRun) -> Section | None:
    metrics = run.metrics
    if not metrics.latency:
        return None
    bound = ("Saturated: every value is a lower bound.",) if metrics.saturated else ()
    other = [latency for latency in Latency if latency not in MAIN]
    return Section(
        "Latency",
        text=(*bound, _clock(metrics.header), *DEFINITIONS, *OTHER_DEFINITIONS),
        tables=(
            latency_table("latency", "What was felt", metrics.latency, MAIN),
            latency_table("latency_other", "In other forms", metrics.latency, other),
        ),
    )


def _failures(metrics: RunMetrics) -> Section | None:
    if not metrics.failures_all:
        return None
    in_window = {f.kind: f.count for f in metrics.failures}
    rows = tuple(
        {
            "kind": f.kind.value,
            "count": f.count,
            "in_window": in_window.get(f.kind, 0),
            "status": f.status,
            "message": f.message,
        }
        for f in metrics.failures_all
    )
    columns = (
        Column("kind", "kind"),
        Column("count", "in the run"),
        Column("in_window", "in the window"),
        Column("status", "HTTP status"),
        Column("message", "most frequent message"),
    )
    return Section("Failures", tables=(Table("failures", "Failures", columns, rows),))


def _classes(metrics: RunMetrics) -> Section | None:
    if not metrics.by_class:
        return None
    tables = [_class_table(metrics.by_class)]
    tables += [
        latency_table(f"latency_{name}", name, found.latency, MAIN)
        for name, found in metrics.by_class.items()
        if found.latency
    ]
    return Section("By class", tables=tuple(tables))


_CLASS_LATENCIES: Final = ((Latency.TTFT, 50), (Latency.TTFT, 99), (Latency.TPOT, 50))


def _class_table(classes: Mapping[str, ClassMetrics]) -> Table:
    rows: list[Mapping[str, Cell]] = []
    for name, found in classes.items():
        row: dict[str, Cell] = {
            "class": name,
            "requests": found.requests,
            "answered": found.answered,
            "hit_tokens": None if found.cache is None else found.cache.token_rate,
            "attainment": None if found.goodput is None else found.goodput.attainment.value,
        }
        for latency, p in _CLASS_LATENCIES:
            known = found.latency.get(latency)
            row[f"{latency.value}_p{p}_s"] = None if known is None else known.percentiles[p].value
        rows.append(row)
    columns = (
        Column("class", "class"),
        Column("requests", "requests", basis=Basis.MEASURED),
        Column("answered", "answered", basis=Basis.MEASURED),
        *(
            Column(f"{latency.value}_p{p}_s", f"{LABELS[latency]} p{p}", "s", Basis.MEASURED)
            for latency, p in _CLASS_LATENCIES
        ),
        Column("hit_tokens", "token hits", "fraction", Basis.MEASURED),
        Column("attainment", "attainment", "fraction", Basis.MEASURED),
    )
    return Table("classes", "Classes", columns, tuple(rows))


def _course(run: MeasuredRun) -> Section | None:
    charts = run_charts(run)
    if not charts:
        return None
    load = run.metrics.saturation
    return Section(
        "Course of the run",
        text=(f"Load {load.load.value}: {load.evidence}.",),
        charts=charts,
    )


def _trust(metrics: RunMetrics) -> Section:
    """The instrument's own checks."""
    figures: list[Figure] = []
    if (lag := metrics.lag) is not None:
        figures += [
            _figure("lag_mean_s", "generator's lag, mean", lag.mean_s, "s", LAG_RULE),
            _figure("lag_p99_s", "generator's lag, p99", lag.p99_s, "s", LAG_RULE),
        ]
        if lag.counts and lag.of_mean is not None and lag.of_p99 is not None:
            figures += [
                _figure("lag_of_mean_e2e", "mean lag of mean E2E", lag.of_mean, "fraction"),
                _figure("lag_of_p99_e2e", "p99 lag of p99 E2E", lag.of_p99, "fraction"),
            ]
    if (law := metrics.littles_law) is not None:
        figures += [
            _figure("littles_law_expected", "requests under way", law.expected, ""),
            _figure(
                "littles_law_product",
                "throughput x time",
                law.product,
                "",
                f"{law.rate:.4g}/s x {law.time_s:.4g} s, tolerance {law.tolerance:.0%}",
            ),
        ]
    figures.append(_figure("load", "load", metrics.saturation.load.value, ""))
    counted = ", ".join(f"{n} by {how.value}" for how, n in metrics.tokens.counted_by.items())
    ended = ", ".join(f"{n} {why}" for why, n in metrics.tokens.finish.items())
    return Section(
        "Can it be trusted",
        text=(
            f"Window: {metrics.window.rule}.",
            f"Tokens of answers counted: {counted or 'none'}. Finish reasons: {ended or 'none'}.",
        ),
        figures=tuple(figures),
    )


def _context(header: RunHeader) -> dict[str, Cell]:
    context: dict[str, Cell] = {
        "command": header.command,
        "target": header.target,
        "model": header.model,
        "api": header.api,
        "workload": header.workload,
        "load": header.load.value,
        "arrivals": header.arrivals,
        "rate": header.rate,
        "concurrency": header.concurrency,
        "time_scale": header.time_scale,
        "duration_s": header.duration_s or None,
        "seed": header.seed,
        "cache": header.cache.value,
        **header.machine,
        **header.versions,
    }
    return {key: value for key, value in context.items() if value not in (None, "")}


def _clock(header: RunHeader) -> str:
    if header.load is LoadKind.CLOSED:
        return "Latency counts from the send (closed loop)."
    return "Latency counts from the intended send time, so a queue in the client would be in it."


def _figure(name: str, label: str, value: Cell, unit: str, arithmetic: str = "") -> Figure:
    return Figure(name, label, value, unit, Basis.MEASURED, arithmetic)


def _sampled(name: str, label: str, found: Estimate, unit: str) -> Figure:
    return Figure(
        name,
        label,
        found.value,
        unit,
        Basis.MEASURED,
        interval=None if found.low is None else Interval(found.low, found.high),
    )
