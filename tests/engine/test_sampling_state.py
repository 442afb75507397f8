"""What an executor keeps for draws that take more than a few numbers."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netgain.engine.messages import RequestId
from netgain.engine.sampling_params import SamplingParams
from netgain.engine.sampling_state import SamplingState, TokenCounts
from netgain.engine.step import NewRequest

TOKENS = st.lists(st.integers(0, 300), max_size=200)


def state(
    tokens: Sequence[int],
    prompt_tokens: int,
    *,
    banned: tuple[int, ...] = (),
    pooling: bool = False,
    **settings: object,
) -> SamplingState:
    sampling = SamplingParams(max_tokens=None, **settings)  # type: ignore[arg-type]
    return SamplingState(
        NewRequest(
            RequestId("a"),
            tuple(tokens),
            prompt_tokens,
            sampling,
            0,
            ((),),
            banned,
            score_prompt=sampling.prompt_logprobs is not None,
            pooling=pooling,
        )
    )


@given(prompt=TOKENS, before=TOKENS, after=TOKENS)
def test_counts_are_those_of_the_answer_for_every_token_seen(
    prompt: list[int], before: list[int], after: list[int]
) -> None:
    counts = TokenCounts(prompt, before)
    for token in after:
        counts.add(token)
    expected = Counter(dict.fromkeys(prompt, 0))
    expected.update(before + after)
    found = dict(zip(counts.ids.tolist(), counts.counts.tolist(), strict=True))
    assert found == dict(expected)
    assert len(counts.ids) == len(found)
    assert counts.ids.dtype == counts.counts.dtype == np.int32


def test_bans_end_with_min_tokens() -> None:
    made = state([5, 6, 7], 3, banned=(2, 9), min_tokens=2)
    banned = [made.shaping(0, position) for position in (3, 4, 5)]
    assert [one is not None and one.banned_ids_B.tolist() for one in banned] == [
        [2, 9],
        [2, 9],
        False,
    ]


def test_the_prompt_counts_for_repetition_only() -> None:
    repetition = state([5, 5, 6], 3, repetition_penalty=1.5).shaping(0, 3)
    presence = state([5, 5, 6], 3, presence_penalty=0.5).shaping(0, 3)
    assert repetition is not None
    assert presence is not None
    assert (repetition.seen_ids_C.tolist(), repetition.seen_counts_C.tolist()) == ([5, 6], [0, 0])
    assert presence.seen_ids_C.tolist() == []


def test_after_preemption_counts_are_what_they_were() -> None:
    before = state([5, 6], 2, repetition_penalty=1.2, frequency_penalty=0.3)
    for token in (8, 5, 8):
        before.append(token)
    after = state([5, 6, 8, 5, 8], 2, repetition_penalty=1.2, frequency_penalty=0.3)
    one, other = before.shaping(0, 5), after.shaping(0, 5)
    assert one is not None
    assert other is not None
    assert one.seen_ids_C.tolist() == other.seen_ids_C.tolist() == [5, 6, 8]
    assert one.seen_counts_C.tolist() == other.seen_counts_C.tolist() == [1, 0, 2]


def test_settings_reach_the_draw() -> None:
    made = state(
        [5],
        1,
        repetition_penalty=1.2,
        frequency_penalty=0.3,
        presence_penalty=-0.4,
        logit_bias=((7, 2.5), (3, -1.0)),
    ).shaping(4, 1)
    assert made is not None
    assert (made.row, made.repetition, made.frequency, made.presence) == (4, 1.2, 0.3, -0.4)
    assert (made.bias_ids_A.tolist(), made.bias_A.tolist()) == ([7, 3], [2.5, -1.0])


def test_a_request_that_only_wants_scores_is_not_shaped() -> None:
    made = state([5, 6], 2, logprobs=3, prompt_logprobs=0, min_p=0.1)
    assert made.shaping(0, 2) is None
    assert (made.tops, made.prompt_tops) == (3, 0)


@given(cuts=st.lists(st.integers(1, 29), max_size=4, unique=True))
def test_an_embedding_is_the_mean_of_all_chunks_at_length_1(cuts: list[int]) -> None:
    hidden_NE = np.random.default_rng(3).standard_normal((30, 8), np.float32)
    mean_E = hidden_NE.astype(np.float64).mean(0)
    made = state([0] * 30, 30, pooling=True)
    edges = [0, *sorted(cuts), 30]
    vector = None
    for begin, end in pairwise(edges):
        assert vector is None
        vector = made.pool(hidden_NE[begin:end], end)
    assert vector == pytest.approx((mean_E / np.linalg.norm(mean_E)).tolist(), abs=1e-7)


def test_hidden_states_of_zero_have_an_embedding_of_zero() -> None:
    made = state([0], 1, pooling=True)
    assert made.pool(np.zeros((1, 4), np.float32), 1) == (0.0, 0.0, 0.0, 0.0)
