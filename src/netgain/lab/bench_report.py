"""What a run has to say, as a report."""

from collections.abc import Mapping, Sequence
from typing import Final

from netgain.lab.bench_charts import run_charts, timeline
from netgain.lab.client_vs_ledger import ClientVsLedger, Remainder, client_vs_ledger
from netgain.lab.foreign.result import ForeignResult, Tool
from netgain.lab.foreign.tools import as_tool
from netgain.lab.metrics.distribution import PERCENTILES, Distribution
from netgain.lab.metrics.estimate import Estimate
from netgain.lab.metrics.goodput import Goodput, Met
from netgain.lab.metrics.lag import LAG_RULE
from netgain.lab.metrics.run_metrics import (
    ClassMetrics,
    Latency,
    MeasuredRun,
    RunMetrics,
    measure_run,
)
from netgain.lab.metrics.saturation import Load
from netgain.lab.metrics.trimming import TrimRule
from netgain.lab.record import ErrorKind, RequestRecord
from netgain.lab.run_header import CacheState, LoadKind, RunHeader
from netgain.lab.slo import ServiceLevel
from netgain.report.document import Basis, Cell, Column, Figure, Report, Section, Table

_FEW: Final = 100
_NOTICEABLE: Final = 0.01
LABELS: Final = {
    Latency.TTFT: "TTFT",
    Latency.TTFT_FROM_SENT: "TTFT, from the send",
    Latency.TTFO: "time to the first token that is not reasoning",
    Latency.ITL: "ITL, per token",
    Latency.ITL_PER_REQUEST: "ITL, mean of each request",
    Latency.CHUNK_GAP: "chunk gap",
    Latency.TPOT: "TPOT",
    Latency.TPOT_BY_TOKENS: "TPOT, weighted by tokens",
    Latency.E2E: "E2E",
    Latency.E2E_FROM_SENT: "E2E, from the send",
    Latency.NORMALISED: "E2E per token",
    Latency.NORMALISED_BY_TOKENS: "E2E per token, weighted by tokens",
    Latency.CLIENT_QUEUEING: "client queueing",
}
_DEFINITIONS: Final = (
    "TTFT: to the first token, reasoning included. E2E: to the last. TPOT = (last - first) / "
    "(n - 1), none for one token. ITL: an event of k tokens after a gap g gives k times g / k; "
    "chunk gaps are between events.",
    "Brackets are 95 % intervals from blocks in time; a dash is a bound the sample cannot give.",
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
    run: MeasuredRun, foreign: ForeignResult | None = None, *, cache_checked: bool = False
) -> Report:
    """The same from a run already measured. `cache_checked`: by the server's own counters, which
    tell what the prompts share among themselves from what was there before.
    """
    metrics = run.metrics
    sections = [
        _summary(metrics),
        _latency(run),
        _goodput(metrics),
        _failures(metrics),
        _classes(metrics),
        _course(run),
        _where_time_went(run),
        _trust(metrics),
        None if foreign is None else foreign.section(),
    ]
    header = metrics.header
    return Report(
        title=f"Bench of {header.model} at {header.target}",
        sections=tuple(section for section in sections if section is not None),
        verdict=verdict(metrics),
        warnings=warnings(metrics, cache_checked=cache_checked),
        context=_context(header),
    )


def verdict(metrics: RunMetrics) -> tuple[str, ...]:
    """The run in a sentence or two; the first says what a reader must know before any number."""
    said = []
    if not metrics.answered:
        return (f"None of {metrics.requests} requests was answered.",)
    if metrics.unsent:
        said.append("Invalid: the load generator could not send all that was to be sent.")
    elif not metrics.valid:
        said.append("Invalid: the load generator lagged; the latencies are partly its own.")
    if metrics.saturated:
        said.append(
            "Saturated: the server did not keep up with the load; latency percentiles are lower "
            "bounds that grow with the run's length."
        )
    goodput = metrics.goodput
    if goodput is not None:
        words = {
            Met.YES: "The SLO was met",
            Met.NO: "The SLO was missed",
            Met.UNCLEAR: "Too few requests to tell whether the SLO was met",
        }
        said.append(
            f"{words[goodput.met]}: {goodput.attainment.value:.1%} of {goodput.requests} requests "
            f"met every limit ({goodput.demanded:.1%} demanded), {_rate(goodput.rate.value)} good "
            "requests/s."
        )
    ttft = metrics.latency.get(Latency.TTFT)
    tpot = metrics.latency.get(Latency.TPOT)
    parts = [
        f"{_rate(metrics.throughput.answered.value)} requests/s",
        f"{_rate(metrics.throughput.output_tokens.value)} output tokens/s",
    ]
    at_least = "at least " if metrics.saturated else ""
    if ttft is not None:
        parts.append(f"TTFT p50 {at_least}{_time(ttft.p50.value)}, p99 {_time(ttft.p99.value)}")
    if tpot is not None:
        parts.append(f"TPOT p50 {at_least}{_time(tpot.p50.value)}")
    said.append(f"{'; '.join(parts)}.")
    return tuple(said)


def warnings(metrics: RunMetrics, *, cache_checked: bool = False) -> tuple[str, ...]:
    """What makes the numbers doubtful, and what to do about it."""
    said = []
    lag = metrics.lag
    if lag is not None and not lag.valid:
        said.append(
            f"The generator sent late: mean {_time(lag.mean_s)} ({lag.of_mean or 0:.1%} of E2E), "
            f"p99 {_time(lag.p99_s)} ({lag.of_p99 or 0:.1%} of E2E's p99); {LAG_RULE}. Lower the "
            "rate or give the client more cores."
        )
    match metrics.saturation.load:
        case Load.SATURATED:
            said.append(f"The queue grew: {metrics.saturation.evidence}. Lower the rate.")
        case Load.RISING:
            said.append(
                f"Latency rose over the run: {metrics.saturation.evidence}. Run longer to tell a "
                "slow start from saturation."
            )
    if 0 < metrics.answered < _FEW:
        few = "1 request was" if metrics.answered == 1 else f"{metrics.answered} requests were"
        said.append(f"Only {few} answered in the window: tails are guesses. Run longer.")
    if metrics.window.whole and metrics.recorded:
        said.append(
            "Measured was the whole run, its beginning and end included: it is too short to cut "
            "them off. Run longer."
        )
    if metrics.header.cache is CacheState.UNDECLARED:
        said.append(
            "The cache's state was not declared: repeated prompts may have hit. Say cold or warm."
        )
    cache = None if cache_checked else metrics.cache
    if metrics.header.cache is CacheState.COLD and cache is not None and cache.hit_requests:
        said.append(
            f"Declared cold, but {cache.hit_requests} of {cache.requests} requests hit the prefix "
            f"cache ({cache.token_rate:.1%} of their prompt tokens): prompts share prefixes, or "
            "the cache was not reset."
        )
    law = metrics.littles_law
    if metrics.header.load is LoadKind.CLOSED and law is not None and not law.holds:
        why = "clients idled" if law.product < law.expected else "the window is not steady"
        said.append(
            f"Little's law fails: {law.expected:.4g} clients, but throughput x time is "
            f"{law.product:.4g} (tolerance {law.tolerance:.0%}): {why} or requests were miscounted."
        )
    return (*said, *_unanswered(metrics), *_token_doubts(metrics))


def _unanswered(metrics: RunMetrics) -> list[str]:
    late = sum(
        f.count for f in metrics.failures if f.kind in (ErrorKind.TIMEOUT, ErrorKind.CANCELLED)
    )
    failed = metrics.requests - metrics.answered
    said = []
    if late > _NOTICEABLE * metrics.requests:
        said.append(
            f"{late} requests timed out or were cut off at the end: percentiles leave them out and "
            "are lower bounds."
        )
    if failed > late and failed - late > _NOTICEABLE * metrics.requests:
        said.append(f"{failed - late} of {metrics.requests} requests failed; see the failures.")
    return said


def _token_doubts(metrics: RunMetrics) -> list[str]:
    tokens = metrics.tokens
    said = []
    if tokens.usage_wrong:
        said.append(
            f"The server's usage contradicts the stream in {tokens.usage_wrong} of "
            f"{tokens.requests} answers; the client's own count is used."
        )
    if tokens.spread:
        said.append(
            f"{tokens.spread} answers have several tokens an event and only a total: their ITL is "
            "an average within each answer, its tail unknown."
        )
    if tokens.in_one_piece:
        said.append(
            f"{tokens.in_one_piece} of {tokens.requests} answers came in one piece, not as a "
            "stream: their first token is their last, and they have no TPOT and no ITL."
        )
    if tokens.empty:
        said.append(f"{tokens.empty} answers held no token; they count as misses.")
    if tokens.shorter > _NOTICEABLE * max(tokens.requests, 1):
        said.append(
            f"{tokens.shorter} of {tokens.requests} answers ended before the length asked of them."
        )
    return said


def _summary(metrics: RunMetrics) -> Section:
    window, out, tokens = metrics.window, metrics.throughput, metrics.tokens
    figures = [
        _figure("window_s", "measured window", window.length_s, "s", window.rule),
        _figure("requests", "requests in the window", metrics.requests, ""),
        _figure("answered", "answered", metrics.answered, ""),
        _figure("failed", "failed", metrics.requests - metrics.answered, ""),
        *_rates("offered_requests_per_s", "offered", out.offered, "requests/s"),
        *_rates("requests_per_s", "answered", out.answered, "requests/s"),
        *_rates("output_tokens_per_s", "output", out.output_tokens, "tokens/s"),
    ]
    if out.total_tokens is not None:
        figures += _rates("total_tokens_per_s", "prompt and output", out.total_tokens, "tokens/s")
    figures.append(_figure("output_tokens", "output tokens of answers", tokens.output_tokens, ""))
    if metrics.goodput is not None:
        goodput = metrics.goodput
        figures += _rates("goodput_requests_per_s", "goodput", goodput.rate, "requests/s")
        figures += _rates("attainment", "attainment", goodput.attainment, "fraction")
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
    return Section("Summary", figures=tuple(figures))


def _latency(run: MeasuredRun) -> Section | None:
    metrics = run.metrics
    if not metrics.latency:
        return None
    bound = ("Saturated: every value is a lower bound.",) if metrics.saturated else ()
    return Section(
        "Latency",
        text=(*bound, _clock(metrics.header), *_DEFINITIONS),
        tables=(latency_table("latency", "Latency", metrics.latency),),
    )


def latency_table(name: str, title: str, latency: Mapping[Latency, Distribution]) -> Table:
    """Mean and percentiles with intervals, seconds; rows are keyed by the latency's name."""
    rows: list[Mapping[str, Cell]] = []
    for kind, found in latency.items():
        row: dict[str, Cell] = {"latency": LABELS[kind], "key": kind.value, "n": found.n}
        row |= {"mean_s": found.mean.value, "min_s": found.minimum, "max_s": found.maximum}
        for p in PERCENTILES:
            estimate = found.percentiles[p]
            row[f"p{p}_s"] = estimate.value
            row[f"p{p}_interval"] = _interval(estimate)
        rows.append(row)
    return Table(name, title, _latency_columns(), tuple(rows))


def _latency_columns() -> tuple[Column, ...]:
    columns = [Column("latency", ""), Column("n", "n")]
    columns.append(Column("mean_s", "mean", "s", Basis.MEASURED))
    for p in (50, 90, 95, 99):
        columns.append(Column(f"p{p}_s", f"p{p}", "s", Basis.MEASURED))
        columns.append(Column(f"p{p}_interval", f"p{p} interval"))
    columns.append(Column("max_s", "max", "s", Basis.MEASURED))
    return tuple(columns)


def _goodput(metrics: RunMetrics) -> Section | None:
    goodput = metrics.goodput
    if goodput is None:
        return None
    return Section(
        "Service level",
        text=(
            f"{goodput.good} of {goodput.requests} requests met every limit that applies to them. "
            "Errors, time-outs and requests cut off are misses; an answer of one token or in "
            "one piece has no TPOT and no ITL.",
        ),
        tables=(_limits_table(goodput),),
    )


def _limits_table(goodput: Goodput) -> Table:
    rows: list[Mapping[str, Cell]] = [
        {
            "limit": a.limit.objective.value,
            "at_most_s": a.limit.limit_s,
            "applies": a.applies,
            "share": a.share.value if a.applies else None,
            "interval": _share_interval(a.share),
            "demanded": a.limit.share,
            "met": None if a.met is None else a.met.value,
        }
        for a in goodput.limits
    ]
    rows.append(
        {
            "limit": "all together",
            "applies": goodput.requests,
            "share": goodput.attainment.value,
            "interval": _share_interval(goodput.attainment),
            "demanded": goodput.demanded,
            "met": goodput.met.value,
        }
    )
    columns = (
        Column("limit", "limit on"),
        Column("at_most_s", "at most", "s"),
        Column("applies", "applies to"),
        Column("share", "met it", "fraction", Basis.MEASURED),
        Column("interval", "interval"),
        Column("demanded", "demanded", "fraction"),
        Column("met", "verdict"),
    )
    return Table("attainment", "Attainment", columns, tuple(rows))


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
        latency_table(f"latency_{name}", name, found.latency)
        for name, found in metrics.by_class.items()
        if found.latency
    ]
    return Section("By class", tables=tuple(tables))


def _class_table(classes: Mapping[str, ClassMetrics]) -> Table:
    rows: list[Mapping[str, Cell]] = [
        {
            "class": name,
            "requests": found.requests,
            "answered": found.answered,
            "hit_tokens": None if found.cache is None else found.cache.token_rate,
            "attainment": None if found.goodput is None else found.goodput.attainment.value,
        }
        for name, found in classes.items()
    ]
    columns = (
        Column("class", "class"),
        Column("requests", "requests"),
        Column("answered", "answered"),
        Column("hit_tokens", "cache hits, by tokens", "fraction", Basis.MEASURED),
        Column("attainment", "attainment", "fraction", Basis.MEASURED),
    )
    return Table("classes", "Classes", columns, tuple(rows))


def _course(run: MeasuredRun) -> Section | None:
    charts = run_charts(run)
    if not charts:
        return None
    return Section(
        "Course of the run",
        text=(run.metrics.saturation.evidence.capitalize() + ".",),
        charts=charts,
    )


def _where_time_went(run: MeasuredRun) -> Section | None:
    chart = timeline(run)
    compared = client_vs_ledger(run.columns.records)
    if chart is None:
        return None
    charts = (chart,)
    if compared is None:
        return Section(
            "Where the time went",
            text=("The server offered no ledger: these are the client's stages.",),
            charts=charts,
        )
    return Section(
        "Where the time went",
        text=(
            f"Over {compared.n} requests with a ledger, from the send. Network and client is what "
            "the client saw beyond the ledger.",
        ),
        figures=_remainders(compared),
        tables=(_stage_table(compared),),
        charts=charts,
    )


def _remainders(compared: ClientVsLedger) -> tuple[Figure, ...]:
    figures: list[Figure] = []
    for key, label, rest in (("ttft", "TTFT", compared.ttft), ("e2e", "E2E", compared.e2e)):
        if rest is not None:
            figures += _remainder(key, f"network and client, {label}", rest)
    return tuple(figures)


def _remainder(key: str, label: str, rest: Remainder) -> list[Figure]:
    return [
        _figure(
            f"network_and_client_{key}_{name}_s", f"{label} {name}", value, "s", f"n = {rest.n}"
        )
        for name, value in (("p50", rest.p50_s), ("p95", rest.p95_s), ("p99", rest.p99_s))
    ]


def _stage_table(compared: ClientVsLedger) -> Table:
    parts = {
        **compared.stage_s,
        "other": compared.other_s,
        "network and client": compared.client_e2e_s - compared.ledger_e2e_s,
    }
    rows: list[Mapping[str, Cell]] = [
        {
            "stage": stage,
            "mean_s": seconds / compared.n,
            "share": seconds / compared.client_e2e_s if compared.client_e2e_s else None,
        }
        for stage, seconds in parts.items()
    ]
    columns = (
        Column("stage", "stage"),
        Column("mean_s", "mean of a request", "s", Basis.MEASURED),
        Column("share", "of E2E", "fraction", Basis.MEASURED),
    )
    return Table("stages", "Client's E2E by stage", columns, tuple(rows))


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


def _rates(name: str, label: str, found: Estimate, unit: str) -> list[Figure]:
    bounds = "" if found.low is None else f"95 % interval [{found.low:.4g}, {found.high:.4g}]"
    return [_figure(name, label, found.value, unit, bounds)]


def _interval(found: Estimate) -> str:
    low = "-" if found.low is None else _time(found.low)
    high = "-" if found.high is None else _time(found.high)
    return f"[{low}, {high}]"


def _share_interval(found: Estimate) -> str | None:
    if found.low is None or found.high is None:
        return None
    return f"[{found.low:.1%}, {found.high:.1%}]"


def _rate(per_s: float) -> str:
    return f"{per_s:,.0f}" if per_s >= 1000 else f"{per_s:.4g}"


def _time(seconds: float) -> str:
    return f"{seconds:.3g} s" if abs(seconds) >= 1 else f"{seconds * 1000:.3g} ms"
