"""A run in words: its answer first, then what makes its numbers doubtful."""

from typing import Final

from netgain.lab.metrics.goodput import Met
from netgain.lab.metrics.lag import LAG_RULE
from netgain.lab.metrics.run_metrics import Latency, RunMetrics
from netgain.lab.metrics.saturation import Load
from netgain.lab.record import ErrorKind
from netgain.lab.run_end import RunEnd
from netgain.lab.run_header import CacheState, LoadKind
from netgain.report.units import quantity

_FEW: Final = 100
_NOTICEABLE: Final = 0.01


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
        p50, p99 = _time(ttft.p50.value), _time(ttft.p99.value)
        parts.append(f"TTFT p50 {at_least}{p50}, p99 {at_least}{p99}")
    if tpot is not None:
        parts.append(f"TPOT p50 {at_least}{_time(tpot.p50.value)}")
    said.append(f"{'; '.join(parts)}.")
    return tuple(said)


def warnings(metrics: RunMetrics, end: RunEnd | None = None) -> tuple[str, ...]:
    """What makes the numbers doubtful, and what to do about it."""
    said = [] if end is None else [*end.warnings]
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
    cache = metrics.cache
    checked = end is not None and end.cache_held is not None
    cold = metrics.header.cache is CacheState.COLD and not checked
    if cold and cache is not None and cache.hit_requests:
        said.append(
            f"Declared cold, but {cache.hit_requests} of {cache.requests} requests hit the prefix "
            f"cache ({cache.token_rate:.1%} of their prompt tokens): prompts share prefixes, or "
            "the cache was not reset."
        )
    law = metrics.littles_law
    if metrics.header.load is LoadKind.CLOSED and law is not None and not law.holds:
        why = "clients idled" if law.product < law.expected else "the window is not steady"
        said.append(
            f"Little's law fails: {law.clients} clients should have {law.expected:.4g} requests "
            f"under way, but throughput x time is {law.product:.4g} (tolerance "
            f"{law.tolerance:.0%}): {why} or requests were miscounted."
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
            f"{tokens.in_one_piece} of {tokens.requests} answers came in one piece: their TTFT is "
            "their E2E, and they have no pace (no ITL, no TPOT)."
        )
    if tokens.empty:
        said.append(f"{tokens.empty} answers held no token; they count as misses.")
    if tokens.shorter > _NOTICEABLE * max(tokens.requests, 1):
        said.append(
            f"{tokens.shorter} of {tokens.requests} answers ended before the length asked of them."
        )
    return said


def _rate(per_s: float) -> str:
    return f"{per_s:,.0f}" if per_s >= 1000 else f"{per_s:.4g}"


def _time(seconds: float) -> str:
    return quantity(seconds, "s")
