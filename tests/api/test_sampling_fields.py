"""Each sampling field does over HTTP what it says."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.api.asking import COMPLETIONS, answer, complete, post
from tests.api.serving import ServerUnderTest

PROMPT = "hello hello"
END = "2"
"""The tiny model's end of sequence."""


def ended(server: ServerUnderTest, **fields: object) -> tuple[int, str]:
    """How many tokens a greedy answer has that wants to end at once, and why it ended."""
    body = answer(
        server,
        COMPLETIONS,
        **{"prompt": PROMPT, "temperature": 0, "logit_bias": {END: 100}, **fields},
    )
    return body["usage"]["completion_tokens"], body["choices"][0]["finish_reason"]


def test_a_bias_forces_and_forbids_tokens(tiny: ServerUnderTest) -> None:
    def said(**bias: int) -> set[str]:
        names = {name.removeprefix("t"): value for name, value in bias.items()}
        choice = complete(tiny, PROMPT, logit_bias=names, max_tokens=6, logprobs=0)
        return set(choice["logprobs"]["tokens"])

    one, other = said(t70=100, t71=90), said(t70=-100, t71=90)
    assert len(one) == len(other) == 1
    assert one != other


def test_an_answer_does_not_end_before_its_least_length(tiny: ServerUnderTest) -> None:
    assert ended(tiny) == (1, "stop")
    assert ended(tiny, min_tokens=5) == (6, "stop")
    assert ended(tiny, min_tokens=5, max_tokens=5) == (5, "length")
    assert ended(tiny, ignore_eos=True, max_tokens=4) == (4, "length")


def test_a_stop_token_ends_an_answer(tiny: ServerUnderTest) -> None:
    fields: dict[str, object] = {"logit_bias": {"70": 100}, "max_tokens": 9}
    assert ended(tiny, **fields) == (9, "length")
    assert ended(tiny, stop_token_ids=[70], **fields) == (1, "stop")
    assert ended(tiny, stop_token_ids=[71], **fields) == (9, "length")


@pytest.mark.parametrize(
    "narrow", [{"top_k": 1}, {"top_p": 1e-9}, {"min_p": 1}, {"temperature": 1e-6}]
)
def test_the_narrowest_choice_is_greedy(tiny: ServerUnderTest, narrow: dict[str, float]) -> None:
    greedy = complete(tiny, PROMPT, max_tokens=20)["text"]
    drawn = {"temperature": 1, "seed": 4, "max_tokens": 20}
    assert complete(tiny, PROMPT, **drawn)["text"] != greedy
    assert complete(tiny, PROMPT, **{**drawn, **narrow})["text"] == greedy


@pytest.mark.parametrize(
    "penalty",
    [{"repetition_penalty": 5.0}, {"presence_penalty": 2.0}, {"frequency_penalty": 2.0}],
)
def test_a_penalty_makes_an_answer_less_of_the_same(
    tiny: ServerUnderTest, penalty: dict[str, float]
) -> None:
    """Ten tokens are far likelier than all others: penalised, none is said as often."""
    likely = {str(id_): 50 for id_ in range(70, 80)}

    def said(**fields: object) -> int:
        biased = complete(tiny, PROMPT, max_tokens=24, logit_bias=likely, logprobs=0, **fields)
        tokens: list[str] = biased["logprobs"]["tokens"]
        return max(map(tokens.count, tokens))

    assert said(**penalty) < said()


def test_a_seeded_answer_is_the_same_beside_any_neighbours(tiny: ServerUnderTest) -> None:
    drawn = {
        "prompt": PROMPT,
        "temperature": 1,
        "seed": 12,
        "max_tokens": 60,
        "presence_penalty": 1,
        "min_p": 0.01,
        "ignore_eos": True,
    }

    def ask(fields: dict[str, Any]) -> str:
        text: str = post(tiny, COMPLETIONS, fields).json()["choices"][0]["text"]
        return text

    alone = ask(drawn)
    noise = {"prompt": PROMPT, "temperature": 1, "max_tokens": 60, "ignore_eos": True}
    with ThreadPoolExecutor(12) as clients:
        texts = list(clients.map(ask, [drawn if at % 3 == 0 else noise for at in range(12)]))
    assert texts[::3] == [alone] * 4
    assert len(set(texts)) > 5


def test_without_a_seed_every_answer_is_another(tiny: ServerUnderTest) -> None:
    texts = {complete(tiny, PROMPT, temperature=1, max_tokens=30)["text"] for _ in range(4)}
    assert len(texts) == 4
