"""The metrics only grow, whatever happens to the engine, and name no prompt."""

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from netgain.engine.messages import EngineInfo, FinishReason, LoadPart
from netgain.ledger.counters import EngineCounters
from netgain.ledger.record import Interval, LedgerRecord, NetGain
from netgain.ledger.stages import LedgerStage, Technique
from netgain.server.engine_totals import EngineTotals
from netgain.server.histogram import Histogram
from netgain.server.metrics import RequestSummary, ServerMetrics


def samples(metrics: ServerMetrics) -> dict[str, float]:
    text = generate_latest(metrics.registry()).decode()
    return {
        sample.name + "".join(f"{{{key}={value}}}" for key, value in sample.labels.items()): (
            sample.value
        )
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@given(st.lists(st.lists(st.integers(0, 1000), max_size=5), max_size=5))
def test_engine_counters_are_sums_over_engine_lives(lives: list[list[int]]) -> None:
    totals = EngineTotals()
    expected = seen = 0
    for life in lives:
        for steps in sorted(life):
            totals.update(EngineCounters(steps=steps, running=3))
            assert totals.totals()["steps"] >= seen
            seen = int(totals.totals()["steps"])
        expected += max(life, default=0)
        totals.engine_ended()
        assert totals.now.running == 0
        assert totals.totals()["steps"] == expected


def test_net_gain_survives_an_engine_restart() -> None:
    totals = EngineTotals()
    gain = {Technique.PREFIX_CACHE: NetGain(2.0, 0.5)}
    totals.update(EngineCounters(net_gain=gain))
    totals.engine_ended()
    totals.update(EngineCounters(net_gain=gain))
    assert totals.gains() == {Technique.PREFIX_CACHE: NetGain(4.0, 1.0)}


def test_every_counter_of_the_engine_is_shown() -> None:
    metrics = ServerMetrics()
    names = [
        name
        for name, default in zip(
            EngineCounters.__struct_fields__, EngineCounters.__struct_defaults__, strict=True
        )
        if isinstance(default, int | float)
    ]
    metrics.engine.update(EngineCounters(**{name: 1000 + at for at, name in enumerate(names)}))  # type: ignore[arg-type]
    shown = set(samples(metrics).values())
    assert {1000.0 + at for at in range(len(names))} <= shown


def test_a_finished_request_is_in_every_histogram() -> None:
    metrics = ServerMetrics()
    metrics.load = (LoadPart("read", 0.5),)
    second = 10**9
    stages = (
        Interval(LedgerStage.QUEUE, 0, second // 2),
        Interval(LedgerStage.DECODE, second // 2, 2 * second),
    )
    metrics.gap(second // 2, 2)
    metrics.request_ended(
        RequestSummary(
            FinishReason.LENGTH, 7, 3, 4, LedgerRecord(stages), 0, 2 * second, second, 2 * second
        )
    )
    found = samples(metrics)
    assert found["netgain_ttft_seconds_sum"] == 1.0
    assert found["netgain_tpot_seconds_sum"] == 0.5
    assert found["netgain_e2e_seconds_sum"] == 2.0
    assert found["netgain_queue_seconds_sum"] == 0.5
    assert found["netgain_itl_seconds_count"] == 2
    assert found["netgain_itl_seconds_sum"] == 0.5
    assert found["netgain_chunk_gap_seconds_count"] == 1
    assert found["netgain_stage_seconds_total{stage=decode}"] == 1.5
    assert found["netgain_requests_total{finish_reason=length}"] == 1
    assert found["netgain_load_seconds{part=read}"] == 0.5
    assert found["netgain_cached_tokens_total"] == 4


def test_an_aborted_request_is_counted_but_measures_nothing() -> None:
    metrics = ServerMetrics()
    metrics.request_ended(
        RequestSummary(FinishReason.ABORT, 1, 1, 0, LedgerRecord(()), 0, 10, 5, 5)
    )
    assert metrics.requests[FinishReason.ABORT] == 1
    assert sum(metrics.e2e.counts) == 0


@given(st.lists(st.floats(0, 10), max_size=30))
def test_a_histogram_counts_each_value_in_every_bucket_that_holds_it(values: list[float]) -> None:
    histogram = Histogram((0.1, 1.0, 5.0))
    for value in values:
        histogram.observe(value)
    assert histogram.buckets() == [
        ("0.1", sum(value <= 0.1 for value in values)),
        ("1", sum(value <= 1.0 for value in values)),
        ("5", sum(value <= 5.0 for value in values)),
        ("+Inf", len(values)),
    ]


def test_the_engine_says_what_it_runs_with() -> None:
    metrics = ServerMetrics()
    assert not any("netgain_engine_info" in name for name in samples(metrics))
    metrics.info = EngineInfo(
        model_name="tiny",
        max_model_len=8,
        vocab_size=8,
        kv_blocks=1,
        kv_block_tokens=8,
        kv_bytes=1,
        parameters=1,
        weight_bytes=4,
        backend="torch",
        isa="AVX2",
        threads=2,
        weights="fp32",
        kv_dtype="fp16",
        numerics="fast",
        step_base_s=0.1,
        step_token_s=0.1,
        load=(),
    )
    (name,) = (name for name in samples(metrics) if "netgain_engine_info" in name)
    for label in ("{backend=torch}", "{isa=AVX2}", "{weights=fp32}", "{kv_dtype=fp16}"):
        assert label in name
