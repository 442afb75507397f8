"""Token gaps and chunk gaps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netgain.lab.metrics.columns import RequestColumns
from netgain.lab.metrics.gaps import Gaps, chunk_gaps, token_gaps
from netgain.lab.record import ErrorKind, RequestRecord, TokenCounting
from tests.lab.queues import header
from tests.lab.scripts import Chunk, answer


def columns_of(*records: RequestRecord) -> RequestColumns:
    return RequestColumns.of(header(), list(records))


def pairs(gaps: Gaps) -> list[tuple[float, float]]:
    return [(round(s * 1000, 6), t) for s, t in zip(gaps.seconds, gaps.tokens, strict=True)]


def test_one_token_an_event_makes_both_gaps_the_same() -> None:
    columns = columns_of(answer(0, [(100, 1), (110, 1), (140, 1)]))
    assert pairs(token_gaps(columns)) == [(10, 1), (30, 1)]
    assert pairs(chunk_gaps(columns)) == [(10, 1), (30, 1)]


def test_an_event_of_k_tokens_after_a_gap_gives_k_token_gaps_of_a_kth() -> None:
    columns = columns_of(answer(0, [(100, 1), (138, 4), (148, 1)]))
    assert pairs(token_gaps(columns)) == [(9.5, 4), (10, 1)]
    assert pairs(chunk_gaps(columns)) == [(38, 1), (10, 1)]


def test_the_first_events_extra_tokens_give_no_gap() -> None:
    columns = columns_of(answer(0, [(100, 5), (120, 2)]))
    assert pairs(token_gaps(columns)) == [(10, 2)]


def test_coalesced_events_have_gaps_of_0() -> None:
    columns = columns_of(answer(0, [(100, 1), (160, 1), (160, 1), (160, 1)]))
    assert pairs(token_gaps(columns)) == [(60, 1), (0, 1), (0, 1)]


def test_text_without_a_whole_token_lends_its_time_to_the_next_token() -> None:
    columns = columns_of(answer(0, [(100, 1), (120, 0), (150, 1)]))
    assert pairs(token_gaps(columns)) == [(50, 1)]
    assert pairs(chunk_gaps(columns)) == [(20, 1), (30, 1)]


def test_role_and_finish_events_make_no_gap() -> None:
    columns = columns_of(answer(0, [(100, 1), (110, 1)], role=10, finish=500))
    assert pairs(chunk_gaps(columns)) == [(10, 1)]


def test_no_gap_lies_between_two_requests() -> None:
    columns = columns_of(answer(0, [(100, 1), (110, 1)]), answer(1, [(300, 1), (330, 1)]))
    assert pairs(token_gaps(columns)) == [(10, 1), (30, 1)]
    assert token_gaps(columns).request.tolist() == [0, 1]


def test_failed_requests_and_one_token_answers_have_no_gaps() -> None:
    columns = columns_of(
        answer(0, [(100, 1), (110, 1)], failure=ErrorKind.DISCONNECTED), answer(1, [(100, 1)])
    )
    assert pairs(token_gaps(columns)) == []
    assert pairs(chunk_gaps(columns)) == []


def test_tokens_known_only_in_total_are_spread_over_the_later_events() -> None:
    record = answer(0, [(100, 1), (140, 1), (160, 1)], usage=9, counting=TokenCounting.EVENTS)
    assert pairs(token_gaps(columns_of(record))) == [(10, 4), (5, 4)]


def test_the_mean_gap_of_each_request_and_the_share_within_a_limit() -> None:
    columns = columns_of(
        answer(0, [(100, 1), (110, 1), (140, 3)]),
        answer(1, [(50, 1)]),
        answer(2, [(0, 1), (40, 1)]),
    )
    gaps = token_gaps(columns)
    assert gaps.mean_per_request(3) == pytest.approx([0.010, np.nan, 0.040], nan_ok=True)
    # 10 ms once and 10 ms three times; nothing; 40 ms once.
    assert gaps.share_within(0.0101, 3) == pytest.approx([1.0, np.nan, 0.0], nan_ok=True)


answers = st.lists(
    st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 6)), max_size=8), max_size=5
)


@given(answers)
def test_token_gaps_add_up_to_the_time_between_first_and_last_token(
    scripts: list[list[Chunk]],
) -> None:
    ordered = [sorted(chunks) for chunks in scripts]
    columns = columns_of(*(answer(i, chunks) for i, chunks in enumerate(ordered)))
    gaps = token_gaps(columns)
    expected = 0.0
    for chunks in ordered:
        bearing = [at for at, tokens in chunks if tokens]
        expected += (bearing[-1] - bearing[0]) / 1000 if bearing else 0.0
    assert float(gaps.seconds @ gaps.tokens) == pytest.approx(expected)
    after_first = sum(
        sum(tokens for _, tokens in chunks) - next((t for _, t in chunks if t), 0)
        for chunks in ordered
    )
    assert gaps.tokens.sum() == after_first


def test_with_speculation_38_4_ms_by_chunks_are_10_76_by_tokens() -> None:
    # A public report's numbers, ten times as slow: 269 chunks of 3 or 4 tokens, 960 in all.
    chunks = [(0, 1)] + [(384 * (n + 1), 4 if n < 153 else 3) for n in range(269)]
    columns = columns_of(answer(0, chunks))
    assert chunk_gaps(columns).seconds.mean() == pytest.approx(0.384)
    assert token_gaps(columns).tokens.sum() == 960
    assert token_gaps(columns).mean_per_request(1)[0] == pytest.approx(0.1076)
