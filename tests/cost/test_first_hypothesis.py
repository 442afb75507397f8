"""SPEC 7's exercises come out as they must."""

import pytest

from netgain.cost.first_hypothesis import (
    BASE_LEVERS,
    CHECK_ALSO,
    TRADE_OFF,
    Goal,
    Situation,
    Technique,
    hypotheses,
)
from netgain.errors import ConfigurationError


def test_slow_decode_of_one_request_on_one_gpu_suggests_speculation() -> None:
    first = hypotheses(Situation(decode_share=0.9, decode_batch=1))[0]
    assert first.technique is Technique.SPECULATION
    assert {"acceptance", "draft cost", "ITL", "throughput at load"} <= set(first.check)


def test_a_model_too_large_for_one_gpu_with_fast_links_suggests_tp_or_pp() -> None:
    first, second = hypotheses(Situation(devices_per_model=4, fast_links=True))[:2]
    assert {first.technique, second.technique} == {
        Technique.TENSOR_PARALLEL,
        Technique.PIPELINE_PARALLEL,
    }
    assert {"divisibility", "topology", "communication share"} <= set(first.check)


def test_over_slow_links_stages_come_before_tensor_ranks() -> None:
    ranked = [h.technique for h in hypotheses(Situation(devices_per_model=2, fast_links=False))]
    assert ranked.index(Technique.PIPELINE_PARALLEL) < ranked.index(Technique.TENSOR_PARALLEL)


def test_a_long_document_that_is_evicted_and_comes_again_suggests_tiered_kv() -> None:
    seen = Situation(
        prefill_share=0.7, decode_share=0.3, repeated_tokens=50_000, evicted_before_reuse=True
    )
    first = hypotheses(seen)[0]
    assert first.technique is Technique.KV_TIERS
    assert {"hit rate", "transfer", "cold and warm latency"} <= set(first.check)


def test_a_document_that_stays_needs_only_the_prefix_cache() -> None:
    seen = Situation(prefill_share=0.7, decode_share=0.3, repeated_tokens=50_000)
    assert hypotheses(seen)[0].technique is Technique.PREFIX_CACHE


@pytest.mark.parametrize(
    "shares",
    [
        {"queue_share": 0.7, "prefill_share": 0.1, "decode_share": 0.2},
        {"queue_share": 0.1, "prefill_share": 0.7, "decode_share": 0.2},
    ],
)
def test_where_prefill_or_queue_dominates_speculation_ranks_low(shares: dict[str, float]) -> None:
    found = {h.technique: h for h in hypotheses(Situation(**shares))}  # type: ignore[arg-type]
    assert found[Technique.SPECULATION].weight < 0.1


def test_a_large_batch_ranks_speculation_below_a_small_one() -> None:
    def weight(batch: int) -> float:
        found = hypotheses(Situation(decode_share=0.9, decode_batch=batch))
        return next(h.weight for h in found if h.technique is Technique.SPECULATION)

    assert weight(128) < weight(1)


def test_prefill_that_disturbs_decode_suggests_chunks_then_separation() -> None:
    def first(chunked: bool) -> Technique:
        seen = Situation(
            prefill_share=0.5, decode_share=0.5, interference_share=0.4, chunked=chunked
        )
        return hypotheses(seen)[0].technique

    assert first(chunked=False) is Technique.CHUNKED_PREFILL
    assert first(chunked=True) is Technique.SEPARATION


def test_a_model_that_fits_with_too_little_throughput_suggests_replicas() -> None:
    seen = Situation(decode_share=0.9, decode_batch=64, throughput_short=True)
    assert hypotheses(seen)[0].technique is Technique.DATA_PARALLEL


def test_static_knowledge_in_every_prompt_suggests_cag() -> None:
    seen = Situation(prefill_share=0.8, decode_share=0.2, static_knowledge=True)
    assert hypotheses(seen)[0].technique is Technique.CAG


@pytest.mark.parametrize(
    ("goal", "also"),
    [
        (Goal.SHORTER_TTFT, {"queue", "input processing", "memory"}),
        (Goal.SHORTER_E2E, {"decode time", "output length"}),
        (Goal.MORE_THROUGHPUT, {"concurrency", "queue", "utilisation"}),
        (Goal.BIGGER_MODEL, {"weights", "cost", "latency"}),
        (Goal.CHEAPER_DEVICE, {"memory", "bandwidth", "interconnect"}),
    ],
)
def test_each_goal_names_what_to_check_also(goal: Goal, also: set[str]) -> None:
    assert set(CHECK_ALSO[goal]) == also


def test_base_levers_come_before_techniques_and_each_costs_something() -> None:
    assert BASE_LEVERS[0].name == "batching and scheduling"
    assert all(lever.saves and lever.costs for lever in BASE_LEVERS)
    assert set(TRADE_OFF) == {"quality", "latency", "throughput", "cost"}


def test_shares_outside_zero_to_one_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"queue_share is 1\.2"):
        Situation(queue_share=1.2)
