"""RAG against CAG: SPEC 13's tokens and prices, break-evens, two price models kept apart."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netgain.cost.knowledge import (
    KnowledgeShape,
    ManagedPrices,
    PromptTokens,
    SelfHostedCosts,
    Way,
    break_even_queries,
    break_even_updates_per_s,
    managed_break_even_price_ratio,
    managed_dollars,
    prefill_ratio,
    queries_per_build,
    token_equivalents,
)
from netgain.errors import ConfigurationError

# 100,000 cached in CAG beside the system prompt of 500.
SHAPE = KnowledgeShape(system=500, question=500, chunk=500, chunks=10, corpus=100_000)


def test_cag_prefills_an_eleventh_of_rags_tokens() -> None:
    rag, cag = SHAPE.prompt(Way.RAG), SHAPE.prompt(Way.CAG)
    assert rag == PromptTokens(cached=500, fresh=5_500)
    assert cag == PromptTokens(cached=100_500, fresh=500)
    assert prefill_ratio(rag, cag) == 11


def test_at_a_tenth_of_the_price_for_cached_tokens_cag_is_dearer() -> None:
    assert token_equivalents(SHAPE.prompt(Way.RAG), 0.1) == pytest.approx(5_550)
    assert token_equivalents(SHAPE.prompt(Way.CAG), 0.1) == pytest.approx(10_550)


def test_managed_prices_add_retrieval_to_one_and_storage_to_the_other() -> None:
    prices = ManagedPrices(3.0, 0.3, retrieval_dollars=0.001, storage_dollars_per_query=0.002)
    rag = managed_dollars(prices, SHAPE.prompt(Way.RAG), Way.RAG)
    cag = managed_dollars(prices, SHAPE.prompt(Way.CAG), Way.CAG)
    both = managed_dollars(prices, SHAPE.prompt(Way.HYBRID), Way.HYBRID)
    assert rag == pytest.approx((500 * 0.3 + 5_500 * 3) / 1e6 + 0.001)
    assert cag == pytest.approx((100_500 * 0.3 + 500 * 3) / 1e6 + 0.002)
    hybrid = SHAPE.prompt(Way.HYBRID)
    assert both == pytest.approx((hybrid.cached * 0.3 + hybrid.fresh * 3) / 1e6 + 0.003)


def test_the_break_even_price_of_cached_tokens_is_where_both_cost_the_same() -> None:
    rag, cag = SHAPE.prompt(Way.RAG), SHAPE.prompt(Way.CAG)
    ratio = managed_break_even_price_ratio(rag, cag)
    assert ratio == pytest.approx(0.05)
    assert token_equivalents(rag, ratio) == pytest.approx(token_equivalents(cag, ratio))


def test_a_build_is_paid_by_the_questions_it_serves() -> None:
    costs = SelfHostedCosts(build_s=20, queries_per_build=40, prefill_s=0.1)
    assert costs.per_query_s == pytest.approx(0.6)
    assert costs.dollars(3.6) == pytest.approx(0.0006)
    assert SelfHostedCosts(build_s=20, prefill_s=0.1).per_query_s == pytest.approx(0.1)


@given(st.floats(0.1, 1e3), st.floats(0.1, 10), st.floats(0.01, 0.09))
def test_at_the_break_even_both_ways_cost_the_same(build: float, rag: float, cag: float) -> None:
    queries = break_even_queries(build, rag, cag)
    assert queries is not None
    own = SelfHostedCosts(build_s=build, queries_per_build=queries, prefill_s=cag)
    assert own.per_query_s == pytest.approx(rag)
    more = SelfHostedCosts(build_s=build, queries_per_build=2 * queries, prefill_s=cag)
    assert more.per_query_s < rag


def test_cag_that_is_dearer_online_never_breaks_even() -> None:
    assert break_even_queries(10, rag_online_s=0.2, cag_online_s=0.3) is None


def test_the_update_rate_that_still_pays_follows_from_the_reuse() -> None:
    assert break_even_updates_per_s(queries_per_s=2, queries_per_build=500) == pytest.approx(0.004)
    assert queries_per_build(2, 0.004) == pytest.approx(500)
    assert queries_per_build(2, 0) == math.inf


@given(st.floats(0, 1), st.integers(0, 10))
def test_a_hybrid_lies_between_the_two(stable: float, chunks: int) -> None:
    shape = KnowledgeShape(500, 500, 500, 10, 100_000, stable, chunks)
    hybrid = shape.prompt(Way.HYBRID)
    assert shape.prompt(Way.RAG).cached <= hybrid.cached <= shape.prompt(Way.CAG).cached
    assert shape.prompt(Way.CAG).fresh <= hybrid.fresh <= shape.prompt(Way.RAG).fresh


def test_sizes_below_zero_and_shares_above_one_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="corpus tokens is -1"):
        KnowledgeShape(500, 500, 500, 10, -1)
    with pytest.raises(ConfigurationError, match="stable_share"):
        KnowledgeShape(500, 500, 500, 10, 10, stable_share=1.5)
    with pytest.raises(ConfigurationError, match="queries_per_build is 0"):
        _ = SelfHostedCosts(build_s=1, queries_per_build=0).per_query_s
