"""Every metric of a run, from its header and its records."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from netgain.lab.metrics.blocks import TimeBlocks
from netgain.lab.metrics.cache_hits import CacheHits
from netgain.lab.metrics.columns import BoolArray, RequestColumns
from netgain.lab.metrics.distribution import Distribution, distribution
from netgain.lab.metrics.failures import FailureClass, failure_classes
from netgain.lab.metrics.gaps import Gaps, chunk_gaps, token_gaps
from netgain.lab.metrics.goodput import Goodput
from netgain.lab.metrics.lag import Lag
from netgain.lab.metrics.littles_law import LittlesLaw
from netgain.lab.metrics.request_times import RequestTimes
from netgain.lab.metrics.saturation import Load, Saturation, saturation
from netgain.lab.metrics.throughput import Throughput
from netgain.lab.metrics.token_counts import TokenCounts
from netgain.lab.metrics.trimming import TrimRule, Window, steady_window
from netgain.lab.record import ErrorKind, RequestRecord
from netgain.lab.run_header import RunHeader
from netgain.lab.slo import ServiceLevel


class Latency(StrEnum):
    """A latency whose distribution is reported."""

    TTFT = "ttft"
    TTFT_FROM_SENT = "ttft_from_sent"
    TTFO = "ttfo"
    """To the first token that is not reasoning."""
    ITL = "itl"
    """Per token, pooled: every token gap counts once."""
    ITL_PER_REQUEST = "itl_per_request"
    """Each request's mean token gap, every request counting once."""
    CHUNK_GAP = "chunk_gap"
    TPOT = "tpot"
    TPOT_BY_TOKENS = "tpot_by_tokens"
    """Every request counting n - 1 times."""
    E2E = "e2e"
    E2E_FROM_SENT = "e2e_from_sent"
    NORMALISED = "normalised"
    NORMALISED_BY_TOKENS = "normalised_by_tokens"
    """Every request counting n times."""
    CLIENT_QUEUEING = "client_queueing"


@dataclass(frozen=True, slots=True)
class ClassMetrics:
    """What one class of requests felt, over the run's window."""

    requests: int
    answered: int
    latency: Mapping[Latency, Distribution]
    cache: CacheHits | None
    goodput: Goodput | None


@dataclass(frozen=True, slots=True)
class RunMetrics:
    """A run over its steady window.

    `recorded`: records in the run; `requests`: those that started in the window, `answered` the
    answered among them. `latency` holds those that exist; all but client queueing are of answered
    requests. `interval_blocks` is what the intervals were computed from. `failures` are the
    window's, `failures_all` the whole run's.
    """

    header: RunHeader
    window: Window
    interval_blocks: TimeBlocks
    recorded: int
    requests: int
    answered: int
    latency: Mapping[Latency, Distribution]
    throughput: Throughput
    failures: tuple[FailureClass, ...]
    failures_all: tuple[FailureClass, ...]
    tokens: TokenCounts
    cache: CacheHits | None
    lag: Lag | None
    littles_law: LittlesLaw | None
    saturation: Saturation
    goodput: Goodput | None
    by_class: Mapping[str, ClassMetrics]

    @property
    def valid(self) -> bool:
        """Whether the load generator kept to its times, and could send what was to be sent."""
        return not self.unsent and (self.lag is None or self.lag.valid)

    @property
    def unsent(self) -> int:
        """Requests of the window that the generator itself could not send."""
        return sum(f.count for f in self.failures if f.kind is ErrorKind.GENERATOR)

    @property
    def saturated(self) -> bool:
        """Whether latencies are lower bounds only: the queue grew as long as the run lasted."""
        return self.saturation.load is Load.SATURATED


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """A run's metrics with the columns they came from, for charts and rows."""

    metrics: RunMetrics
    columns: RequestColumns
    times: RequestTimes
    token_gaps: Gaps
    chunk_gaps: Gaps


def run_metrics(
    header: RunHeader,
    records: Sequence[RequestRecord],
    *,
    trim: TrimRule | None = None,
    slo: ServiceLevel | None = None,
) -> RunMetrics:
    """Every metric of a run; goodput only where an SLO is given."""
    return measure_run(header, records, trim=trim, slo=slo).metrics


def measure_run(
    header: RunHeader,
    records: Sequence[RequestRecord],
    *,
    trim: TrimRule | None = None,
    slo: ServiceLevel | None = None,
) -> MeasuredRun:
    """`run_metrics`, with the columns kept."""
    columns = RequestColumns.of(header, records)
    times = RequestTimes.of(columns)
    gaps, chunks = token_gaps(columns), chunk_gaps(columns)
    window = steady_window(header, columns, trim or TrimRule())
    inside = window.holds(columns.start_s)
    lifetimes = (columns.gone_s - columns.start_s)[inside]
    lifetime_s = float(np.median(lifetimes)) if len(lifetimes) else 0.0
    blocks = TimeBlocks.over(window.from_s, window.to_s, lifetime_s)
    of_window = tuple(columns.records[i] for i in np.flatnonzero(inside))
    answered = inside & columns.answered

    def goodput(among: BoolArray) -> Goodput | None:
        if slo is None:
            return None
        return Goodput.of(slo, columns, times, gaps, window, blocks, among)

    by_class = {}
    for number, name in enumerate(columns.classes if len(columns.classes) > 1 else ()):
        members = columns.class_of == number
        by_class[name] = ClassMetrics(
            requests=int((inside & members).sum()),
            answered=int((answered & members).sum()),
            latency=_latencies(columns, times, gaps, chunks, blocks, inside & members),
            cache=CacheHits.of(columns, answered & members),
            goodput=goodput(members),
        )
    metrics = RunMetrics(
        header=header,
        window=window,
        interval_blocks=blocks,
        recorded=len(columns),
        requests=len(of_window),
        answered=int(answered.sum()),
        latency=_latencies(columns, times, gaps, chunks, blocks, inside),
        throughput=Throughput.of(columns, window, blocks),
        failures=failure_classes(of_window),
        failures_all=failure_classes(records),
        tokens=TokenCounts.of(of_window, float(columns.output_tokens[answered].sum())),
        cache=CacheHits.of(columns, answered),
        lag=Lag.of(header.load, times.client_queueing[inside], times.e2e[inside]),
        littles_law=LittlesLaw.of(header, columns, window),
        saturation=saturation(header, columns, window, times.ttft),
        goodput=goodput(np.ones(len(columns), dtype=np.bool_)),
        by_class=by_class,
    )
    return MeasuredRun(metrics, columns, times, gaps, chunks)


def _latencies(
    columns: RequestColumns,
    times: RequestTimes,
    gaps: Gaps,
    chunks: Gaps,
    blocks: TimeBlocks,
    among: BoolArray,
) -> Mapping[Latency, Distribution]:
    """The distributions of the requests in `among` [N]."""
    start_s = columns.start_s[among]
    n = columns.output_tokens[among]
    of_requests = {
        Latency.TTFT: (times.ttft, None),
        Latency.TTFT_FROM_SENT: (times.ttft_from_sent, None),
        Latency.TTFO: (times.ttfo, None),
        Latency.ITL_PER_REQUEST: (gaps.mean_per_request(len(columns)), None),
        Latency.TPOT: (times.tpot, None),
        Latency.TPOT_BY_TOKENS: (times.tpot, n - 1),
        Latency.E2E: (times.e2e, None),
        Latency.E2E_FROM_SENT: (times.e2e_from_sent, None),
        Latency.NORMALISED: (times.normalised, None),
        Latency.NORMALISED_BY_TOKENS: (times.normalised, n),
        Latency.CLIENT_QUEUEING: (times.client_queueing, None),
    }
    found = {
        name: distribution(values[among], start_s, blocks, weights)
        for name, (values, weights) in of_requests.items()
    }
    theirs = among[gaps.request]
    found[Latency.ITL] = distribution(
        gaps.seconds[theirs], gaps.at_s[theirs], blocks, gaps.tokens[theirs]
    )
    if gaps.single and len(gaps.seconds) == len(chunks.seconds):
        found[Latency.CHUNK_GAP] = found[Latency.ITL]  # one token an event: the same gaps
    else:
        theirs = among[chunks.request]
        found[Latency.CHUNK_GAP] = distribution(chunks.seconds[theirs], chunks.at_s[theirs], blocks)
    return {name: one for name in Latency if (one := found[name]) is not None}
