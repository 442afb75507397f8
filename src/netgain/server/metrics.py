"""What `/metrics` shows: raw counters and histograms only, so that every ratio can be derived."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector, CollectorRegistry

from netgain.engine.client import EngineState
from netgain.engine.messages import EngineInfo, FinishReason, LoadPart
from netgain.ledger.record import LedgerRecord
from netgain.ledger.stages import HandoffKind, LedgerStage
from netgain.server.engine_totals import EngineTotals
from netgain.server.histogram import Histogram

_NS_PER_S: Final = 1e9
_REQUEST_BOUNDS: Final = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0),
)
_TOKEN_BOUNDS: Final = (
    *(0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0, 2.5),
)
_ENGINE_COUNTERS: Final = {
    "requests_arrived": ("netgain_engine_requests_arrived", "Requests that reached the engine"),
    "requests_finished": ("netgain_engine_requests_finished", "Requests the engine finished"),
    "requests_aborted": ("netgain_engine_requests_aborted", "Requests aborted in the engine"),
    "kv_blocks_evicted": ("netgain_kv_blocks_evicted", "Cached KV blocks given up for others"),
    "preemptions": ("netgain_preemptions", "Requests thrown out for want of KV blocks"),
    "recomputed_tokens": ("netgain_recomputed_tokens", "Tokens computed again after preemption"),
    "prefix_queries": ("netgain_prefix_cache_queries", "Prefix look-ups, one a request"),
    "prefix_hits": ("netgain_prefix_cache_hits", "Look-ups that found at least one block"),
    "prefix_queried_tokens": ("netgain_prefix_cache_queried_tokens", "Prompt tokens looked up"),
    "prefix_hit_tokens": ("netgain_prefix_cache_hit_tokens", "Prompt tokens found"),
    "steps": ("netgain_steps", "Steps of the engine"),
    "step_tokens": ("netgain_step_tokens", "Tokens computed in steps"),
    "prefill_tokens": ("netgain_prefill_tokens", "Prompt tokens computed"),
    "decode_tokens": ("netgain_decode_tokens", "Decode tokens computed"),
    "busy_s": ("netgain_engine_busy_seconds", "Time in which the engine computed steps"),
    "interference_s": (
        "netgain_interference_seconds",
        "Decode time lost to prefill in the same steps (calibrated estimate)",
    ),
}


@dataclass(frozen=True, slots=True)
class RequestSummary:
    """What the metrics need of an ended request; times in monotonic nanoseconds."""

    reason: FinishReason
    prompt_tokens: int
    generated_tokens: int
    cached_tokens: int
    record: LedgerRecord
    start_ns: int
    end_ns: int
    first_token_ns: int | None
    last_token_ns: int | None


class ServerMetrics:
    """Counts what happens in this process and holds the engine's counters."""

    def __init__(self) -> None:
        self.engine = EngineTotals()
        self.engine_state = EngineState.STARTING
        self.engine_restarts = 0
        self.load: tuple[LoadPart, ...] = ()
        self.info: EngineInfo | None = None
        self.ttft = Histogram(_REQUEST_BOUNDS)
        self.e2e = Histogram(_REQUEST_BOUNDS)
        self.queue = Histogram(_REQUEST_BOUNDS)
        self.itl = Histogram(_TOKEN_BOUNDS)
        self.tpot = Histogram(_TOKEN_BOUNDS)
        self.chunk_gap = Histogram(_TOKEN_BOUNDS)
        self.requests: Counter[FinishReason] = Counter()
        self.http_errors: Counter[int] = Counter()
        self.stage_ns: Counter[LedgerStage] = Counter()
        self.handoff_bytes: Counter[HandoffKind] = Counter()
        self.prompt_tokens = 0
        self.generated_tokens = 0
        self.cached_tokens = 0

    def gap(self, gap_ns: int, tokens: int) -> None:
        """One stream event came `gap_ns` after the one before and brought `tokens`."""
        gap_s = gap_ns / _NS_PER_S
        self.chunk_gap.observe(gap_s)
        self.itl.observe(gap_s / tokens, tokens)

    def request_ended(self, summary: RequestSummary) -> None:
        """Counts an ended request; latencies only of requests that were answered in full."""
        self.requests[summary.reason] += 1
        self.prompt_tokens += summary.prompt_tokens
        self.generated_tokens += summary.generated_tokens
        self.cached_tokens += summary.cached_tokens
        queue_ns = 0
        for interval in summary.record.stages:
            self.stage_ns[interval.stage] += interval.end_ns - interval.start_ns
            if interval.stage is LedgerStage.QUEUE:
                queue_ns += interval.end_ns - interval.start_ns
        for handoff in summary.record.handoffs:
            self.handoff_bytes[handoff.kind] += handoff.bytes
        if summary.reason not in (FinishReason.STOP, FinishReason.LENGTH):
            return
        self.queue.observe(queue_ns / _NS_PER_S)
        self.e2e.observe((summary.end_ns - summary.start_ns) / _NS_PER_S)
        first_ns, last_ns = summary.first_token_ns, summary.last_token_ns
        if first_ns is None or last_ns is None:
            return
        self.ttft.observe((first_ns - summary.start_ns) / _NS_PER_S)
        if summary.generated_tokens > 1:
            self.tpot.observe((last_ns - first_ns) / _NS_PER_S / (summary.generated_tokens - 1))

    def registry(self) -> CollectorRegistry:
        """A registry of its own that shows these metrics."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_ServerCollector(self))
        return registry


class _ServerCollector(Collector):
    """Renders on demand: nothing is kept twice."""

    def __init__(self, metrics: ServerMetrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        metrics = self._metrics
        now = metrics.engine.now
        yield _gauge(
            "netgain_engine_up",
            "1 while the engine serves",
            metrics.engine_state is EngineState.READY,
        )
        yield _counter("netgain_engine_restarts", "Engines restarted", metrics.engine_restarts)
        yield _gauge("netgain_requests_running", "Requests in the engine's steps now", now.running)
        yield _gauge("netgain_requests_waiting", "Requests waiting in the engine now", now.waiting)
        yield _gauge("netgain_kv_blocks_used", "KV blocks held by requests", now.kv_blocks_used)
        yield _gauge("netgain_kv_blocks", "KV blocks there are", now.kv_blocks_total)
        for name, value in metrics.engine.totals().items():
            title, text = _ENGINE_COUNTERS.get(name) or _derived(name)
            yield _counter(title, text, value)
        yield from self._net_gain()
        load = GaugeMetricFamily(
            "netgain_load_seconds", "Loading the model, by part", labels=["part"]
        )
        for part in metrics.load:
            load.add_metric([part.name], part.seconds)
        yield load
        if metrics.info is not None:
            yield _gauge(
                "netgain_kv_block_tokens", "Tokens in a KV block", metrics.info.kv_block_tokens
            )
            yield _info(metrics.info)
        yield from self._requests()

    def _net_gain(self) -> Iterator[Metric]:
        saved = CounterMetricFamily(
            "netgain_net_gain_saved_seconds",
            "What a technique saved (calibrated estimate)",
            labels=["technique"],
        )
        cost = CounterMetricFamily(
            "netgain_net_gain_cost_seconds", "What it cost (measured)", labels=["technique"]
        )
        for technique, gain in self._metrics.engine.gains().items():
            saved.add_metric([technique], gain.saved_s)
            cost.add_metric([technique], gain.cost_s)
        yield saved
        yield cost

    def _requests(self) -> Iterator[Metric]:
        metrics = self._metrics
        for name, text, histogram in (
            ("netgain_ttft_seconds", "First byte in to first token out", metrics.ttft),
            ("netgain_itl_seconds", "Gap between tokens of one request", metrics.itl),
            ("netgain_chunk_gap_seconds", "Gap between events of one request", metrics.chunk_gap),
            ("netgain_tpot_seconds", "Mean gap between tokens, one a request", metrics.tpot),
            ("netgain_e2e_seconds", "First byte in to last byte out", metrics.e2e),
            ("netgain_queue_seconds", "Waiting in the engine before the first step", metrics.queue),
        ):
            family = HistogramMetricFamily(name, text)
            family.add_metric([], histogram.buckets(), histogram.total)
            yield family
        yield _labelled(
            "netgain_requests",
            "Ended requests",
            "finish_reason",
            dict(metrics.requests.items()),
        )
        yield _labelled(
            "netgain_http_errors",
            "HTTP responses that say an error",
            "code",
            {str(code): count for code, count in metrics.http_errors.items()},
        )
        yield _labelled(
            "netgain_stage_seconds",
            "Time of requests by ledger stage",
            "stage",
            {stage: total / _NS_PER_S for stage, total in metrics.stage_ns.items()},
        )
        yield _labelled(
            "netgain_handoff_bytes",
            "Bytes handed over",
            "kind",
            dict(metrics.handoff_bytes.items()),
        )
        yield _counter("netgain_prompt_tokens", "Prompt tokens taken", metrics.prompt_tokens)
        yield _counter(
            "netgain_generated_tokens", "Tokens generated for clients", metrics.generated_tokens
        )
        yield _counter(
            "netgain_cached_tokens",
            "Prompt tokens served by the prefix cache",
            metrics.cached_tokens,
        )


def _derived(name: str) -> tuple[str, str]:
    """A counter the engine has and this table does not: never a reason to show nothing."""
    words = name.removesuffix("_s").replace("_", " ")
    unit = "_seconds" if name.endswith("_s") else ""
    return f"netgain_engine_{name.removesuffix('_s')}{unit}", f"Engine counter: {words}"


def _info(info: EngineInfo) -> Metric:
    values = {
        "model": info.model_name,
        "backend": info.backend,
        "isa": info.isa,
        "threads": str(info.threads),
        "weights": info.weights,
        "kv_dtype": info.kv_dtype,
        "numerics": info.numerics,
    }
    family = GaugeMetricFamily(
        "netgain_engine_info", "What the engine runs with; always 1", labels=list(values)
    )
    family.add_metric(list(values.values()), 1)
    return family


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=value)


def _labelled(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    family = CounterMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family
