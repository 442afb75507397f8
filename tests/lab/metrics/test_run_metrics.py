"""A whole run: throughputs, failures, cache hits, classes, weightings."""

import pytest

from netgain.lab.metrics.run_metrics import Latency, RunMetrics, run_metrics
from netgain.lab.metrics.trimming import Trim, TrimKind, TrimRule
from netgain.lab.record import ErrorKind, RequestRecord
from tests.lab.queues import header
from tests.lab.scripts import answer

WHOLE = TrimRule(Trim(TrimKind.NONE), Trim(TrimKind.NONE))


def measured(records: list[RequestRecord], duration_s: float = 10.0) -> RunMetrics:
    return run_metrics(header(duration_s=duration_s), records, trim=WHOLE)


RUN = [
    answer(0, [(1000, 1), (2000, 1)], intended=500, prompt=100, usage=2, cached=0),
    answer(1, [(3000, 2), (3500, 4)], intended=2500, prompt=200, usage=6, cached=160),
    # Starts in the window, ends after it: its latency counts, its last tokens do not.
    answer(2, [(9500, 1), (12000, 3)], intended=9000, prompt=50, usage=4, cached=40),
    answer(3, [(6000, 1)], intended=5000, failure=ErrorKind.TIMEOUT),
    answer(4, [], intended=6000, failure=ErrorKind.REFUSED),
]


def test_throughput_is_what_happened_within_the_window() -> None:
    out = measured(RUN).throughput
    assert out.offered.value == pytest.approx(5 / 10)
    assert out.answered.value == pytest.approx(2 / 10)
    # 2 + 6 + 1, and the one of the request that timed out.
    assert out.output_tokens.value == pytest.approx(10 / 10)
    assert out.total_tokens is not None
    # Prompts of those whose first token came: 100, 200, 50, and 10 of the one that timed out.
    assert out.total_tokens.value == pytest.approx((10 + 360) / 10)


def test_latencies_are_those_of_answered_requests_that_started_in_the_window() -> None:
    latency = measured(RUN).latency
    assert latency[Latency.TTFT].n == 3
    assert latency[Latency.TTFT].mean.value == pytest.approx((0.5 + 0.5 + 0.5) / 3)
    assert latency[Latency.E2E].maximum == pytest.approx(3.0)
    assert latency[Latency.E2E].p50.value == pytest.approx(1.5)


def test_every_latency_has_its_request_weighted_and_its_token_weighted_form() -> None:
    latency = measured(RUN).latency
    # TPOTs: 1.0 (1 gap), 0.5 / 5 (5 gaps), 2.5 / 3 (3 gaps).
    assert latency[Latency.TPOT].mean.value == pytest.approx((1 + 0.1 + 2.5 / 3) / 3)
    assert latency[Latency.TPOT_BY_TOKENS].mean.value == pytest.approx((1 + 0.5 + 2.5) / 9)
    # ITLs: 1.0 once, 0.125 four times, 2.5 / 3 three times.
    assert latency[Latency.ITL].n == 8
    assert latency[Latency.ITL].mean.value == pytest.approx((1 + 0.5 + 2.5) / 8)
    assert latency[Latency.ITL].p50.value == pytest.approx((0.125 + 2.5 / 3) / 2)
    assert latency[Latency.ITL_PER_REQUEST].mean.value == pytest.approx((1 + 0.125 + 2.5 / 3) / 3)
    assert latency[Latency.CHUNK_GAP].n == 3
    assert latency[Latency.CHUNK_GAP].mean.value == pytest.approx((1 + 0.5 + 2.5) / 3)
    assert latency[Latency.NORMALISED].mean.value == pytest.approx((1.5 / 2 + 1 / 6 + 3 / 4) / 3)
    assert latency[Latency.NORMALISED_BY_TOKENS].mean.value == pytest.approx((1.5 + 1 + 3) / 12)


def test_failures_are_sorted_into_classes() -> None:
    metrics = measured([*RUN, answer(5, [], intended=7000, failure=ErrorKind.REFUSED)])
    assert [(f.kind, f.count) for f in metrics.failures] == [
        (ErrorKind.REFUSED, 2),
        (ErrorKind.TIMEOUT, 1),
    ]
    assert metrics.failures[0].message == "refused happened"
    assert (metrics.requests, metrics.answered) == (6, 3)


def test_cache_hits_are_counted_by_tokens_and_by_requests() -> None:
    cache = measured(RUN).cache
    assert cache is not None
    assert (cache.requests, cache.hit_requests) == (3, 2)
    assert (cache.prompt_tokens, cache.hit_tokens) == (350, 200)
    assert cache.request_rate == pytest.approx(2 / 3)
    assert cache.token_rate == pytest.approx(200 / 350)


def test_without_a_word_from_the_server_there_are_no_cache_hits() -> None:
    assert measured([answer(0, [(100, 1)], usage=1), answer(1, [(100, 1)])]).cache is None


def test_classes_are_told_apart() -> None:
    metrics = measured(
        [
            answer(0, [(100, 1)], request_class="chat", usage=1, cached=5),
            answer(1, [(300, 1)], request_class="chat", usage=1, cached=0),
            answer(2, [(900, 1)], request_class="rag", usage=1, cached=10),
            answer(3, [], request_class="rag", failure=ErrorKind.SERVER),
        ]
    )
    assert set(metrics.by_class) == {"chat", "rag"}
    assert metrics.by_class["chat"].latency[Latency.TTFT].mean.value == pytest.approx(0.2)
    assert metrics.by_class["rag"].latency[Latency.TTFT].mean.value == pytest.approx(0.9)
    assert (metrics.by_class["rag"].requests, metrics.by_class["rag"].answered) == (2, 1)
    rag = metrics.by_class["rag"].cache
    assert rag is not None
    assert rag.token_rate == 1.0


def test_a_run_of_which_nothing_was_answered_still_has_metrics() -> None:
    metrics = measured([answer(i, [], failure=ErrorKind.CONNECT) for i in range(3)])
    assert metrics.latency.keys() <= {Latency.CLIENT_QUEUEING}
    assert metrics.throughput.answered.value == 0
    assert metrics.littles_law is not None


def test_a_run_without_records_still_has_metrics() -> None:
    metrics = measured([])
    assert (metrics.requests, dict(metrics.latency), metrics.lag) == (0, {}, None)
