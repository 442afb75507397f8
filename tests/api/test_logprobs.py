"""How likely each token was: complete, equal in both forms, and true to the text byte for byte."""

import math
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI
from tests.api.asking import CHAT, COMPLETIONS, answer, complete, streamed, user
from tests.api.serving import ServerUnderTest

from netgain.models.tokenizer_source import load_tokenizer

PROMPT = "hello hello, é 1"


def chat_tokens(server: ServerUnderTest, **fields: object) -> tuple[str, list[dict[str, Any]]]:
    body = answer(
        server,
        CHAT,
        messages=[user(PROMPT)],
        logprobs=True,
        ignore_eos=True,
        **{"temperature": 0, "max_tokens": 40, **fields},
    )
    (choice,) = body["choices"]
    return choice["message"]["content"], choice["logprobs"]["content"]


def joined(tokens: list[dict[str, Any]]) -> bytes:
    return b"".join(bytes(token["bytes"]) for token in tokens)


@pytest.mark.parametrize("seed", range(4))
def test_the_bytes_of_a_chats_tokens_are_its_text(tiny: ServerUnderTest, seed: int) -> None:
    text, tokens = chat_tokens(tiny, temperature=1, seed=seed)
    assert len(tokens) == 40
    assert joined(tokens).decode(errors="replace") == text


@pytest.mark.model
def test_the_bytes_of_split_characters_are_the_texts_utf8(server: ServerUnderTest) -> None:
    body = answer(
        server,
        CHAT,
        messages=[user("Repeat exactly: 삼겹살 😀 ďábelské")],
        logprobs=True,
        temperature=0,
        max_tokens=48,
    )
    (choice,) = body["choices"]
    assert joined(choice["logprobs"]["content"]) == choice["message"]["content"].encode()
    assert any(token["token"].startswith("bytes:") for token in choice["logprobs"]["content"])


def test_a_stop_string_cuts_tokens_and_bytes_where_it_cuts_the_text(tiny: ServerUnderTest) -> None:
    whole, _ = chat_tokens(tiny)
    stop = next(char for char in whole[5:] if char not in whole[:5] and char != "\ufffd")
    text, tokens = chat_tokens(tiny, stop=stop)
    assert text == whole[: whole.index(stop)]
    assert joined(tokens).decode(errors="replace") == text


def test_streamed_logprobs_are_the_whole_ones_in_pieces(tiny: ServerUnderTest) -> None:
    text, tokens = chat_tokens(tiny, top_logprobs=3)
    fields = {
        "messages": [user(PROMPT)],
        "logprobs": True,
        "top_logprobs": 3,
        "ignore_eos": True,
        "temperature": 0,
        "max_tokens": 40,
    }
    choice = streamed(tiny, CHAT, fields)[0]
    assert choice.text == text
    assert [token for part in choice.logprobs for token in part["content"]] == tokens


def test_a_chunk_never_scores_a_token_whose_text_is_still_held_back(tiny: ServerUnderTest) -> None:
    fields = {
        "messages": [user(PROMPT)],
        "logprobs": True,
        "ignore_eos": True,
        "temperature": 0,
        "max_tokens": 40,
        "stop": [first + "never" for first in "abcdefghijklmnopqrstuvwxyz"],
    }
    shown = b""
    choice = streamed(tiny, CHAT, fields)[0]
    for part in choice.logprobs:
        shown += joined(part["content"])
    assert shown.decode(errors="replace") == choice.text


def test_alternatives_are_the_likeliest_and_decoded_on_their_own(tiny: ServerUnderTest) -> None:
    _, tokens = chat_tokens(tiny, top_logprobs=20)
    for token in tokens:
        values = [one["logprob"] for one in token["top_logprobs"]]
        assert len(values) == 20
        assert values == sorted(values, reverse=True)
        # Greedy: the token drawn is the likeliest.
        assert token["logprob"] == values[0]
        assert token["token"] == token["top_logprobs"][0]["token"]
        for one in token["top_logprobs"]:
            if not one["token"].startswith("bytes:"):
                assert bytes(one["bytes"]).decode() == one["token"]


def test_no_alternatives_are_asked_for_by_default(tiny: ServerUnderTest) -> None:
    _, tokens = chat_tokens(tiny)
    assert all(token["top_logprobs"] == [] for token in tokens)
    assert all(token["logprob"] <= 0 for token in tokens)


@pytest.mark.parametrize("top", [0, 1, 5, 20])
def test_a_completions_token_is_always_among_its_alternatives(
    tiny: ServerUnderTest, top: int
) -> None:
    choice = complete(tiny, PROMPT, logprobs=top, temperature=1, seed=3, max_tokens=20)
    logprobs = choice["logprobs"]
    assert len(logprobs["tokens"]) == 20
    for token, own, tops in zip(
        logprobs["tokens"], logprobs["token_logprobs"], logprobs["top_logprobs"], strict=True
    ):
        assert tops[token] == own
        assert top <= len(tops) <= top + 1 or top == 0


def test_offsets_say_where_each_tokens_text_begins(tiny: ServerUnderTest) -> None:
    choice = complete(tiny, PROMPT, logprobs=0, max_tokens=30, echo=True)
    logprobs = choice["logprobs"]
    offsets = logprobs["text_offset"]
    assert offsets == sorted(offsets)
    for token, offset in zip(logprobs["tokens"], offsets, strict=True):
        if not token.startswith(("bytes:", "<|")):
            assert choice["text"][offset:].startswith(token)


def test_probabilities_of_all_tokens_make_one(tiny: ServerUnderTest) -> None:
    """Twenty of 288 are shown: their sum is below 1, and biased draws do not change it."""
    plain = complete(tiny, PROMPT, logprobs=20, max_tokens=1)["logprobs"]["top_logprobs"][0]
    hot = complete(tiny, PROMPT, logprobs=20, max_tokens=1, temperature=5, seed=1)
    assert sum(map(math.exp, plain.values())) < 1
    for token, value in plain.items():
        assert hot["logprobs"]["top_logprobs"][0][token] == value


def test_an_echoed_prompt_with_no_answer_is_the_prompt_and_its_logprobs(
    tiny: ServerUnderTest,
) -> None:
    """And they are the same, and complete, whether or not the prompt was seen before."""

    def ask() -> dict[str, Any]:
        return answer(tiny, COMPLETIONS, prompt="hello " * 40, max_tokens=0, echo=True, logprobs=2)

    first, second = ask(), ask()
    for body in (first, second):
        (choice,) = body["choices"]
        assert choice["text"] == "hello " * 40
        assert choice["finish_reason"] == "length"
        assert body["usage"]["completion_tokens"] == 0
        assert body["usage"]["total_tokens"] == body["usage"]["prompt_tokens"]
        assert body["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
        values = choice["logprobs"]["token_logprobs"]
        assert len(values) == body["usage"]["prompt_tokens"]
        assert values[0] is None
        assert all(value is not None and value <= 0 for value in values[1:])
        assert choice["logprobs"]["top_logprobs"][0] is None
        assert "".join(choice["logprobs"]["tokens"]) == choice["text"]
    assert first["choices"] == second["choices"]


def test_an_echo_goes_before_the_answer_streamed_or_not(tiny: ServerUnderTest) -> None:
    fields = {"prompt": PROMPT, "echo": True, "temperature": 0, "max_tokens": 6, "logprobs": 1}
    (whole,) = answer(tiny, COMPLETIONS, **fields)["choices"]
    choice = streamed(tiny, COMPLETIONS, fields)[0]
    assert whole["text"].startswith(PROMPT)
    assert choice.text == whole["text"]
    for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
        assert [one for part in choice.logprobs for one in part[name]] == whole["logprobs"][name]


def test_token_ids_are_echoed_as_their_text(tiny: ServerUnderTest, tiny_folder: Path) -> None:
    ids = load_tokenizer(tiny_folder).encode("hello é<|im_end|>")
    assert complete(tiny, ids, echo=True, max_tokens=1)["text"].startswith("hello é<|im_end|>")


@pytest.mark.parametrize("stream", [False, True])
def test_prompt_logprobs_name_each_tokens_rank(tiny: ServerUnderTest, stream: bool) -> None:
    fields = {"prompt": PROMPT, "prompt_logprobs": 3, "max_tokens": 2, "temperature": 0}
    if stream:
        found = streamed(tiny, COMPLETIONS, fields)[0].prompt_logprobs
    else:
        found = answer(tiny, COMPLETIONS, **fields)["choices"][0]["prompt_logprobs"]
    assert found[0] is None
    for entry in found[1:]:
        ranks = sorted(one["rank"] for one in entry.values())
        assert ranks[:3] == [1, 2, 3]
        assert len(ranks) in (3, 4)


def test_an_answers_logprobs_equal_those_of_a_prompt_that_holds_it(tiny: ServerUnderTest) -> None:
    """Decoding and prefilling are the same model."""
    ids = [1, 50, 60, 70]
    drawn = complete(tiny, ids, logprobs=5, max_tokens=12)["logprobs"]
    again = complete(tiny, ids, max_tokens=12, echo=True, logprobs=5)
    echoed = again["logprobs"]
    assert echoed["tokens"][4:] == drawn["tokens"]
    assert echoed["token_logprobs"][4:] == drawn["token_logprobs"]


def test_the_official_client_reads_both_forms(tiny_client: OpenAI) -> None:
    chat = tiny_client.chat.completions.create(
        model="tiny",
        messages=[{"role": "user", "content": PROMPT}],
        logprobs=True,
        top_logprobs=2,
        max_tokens=3,
        extra_body={"ignore_eos": True},
    )
    assert chat.choices[0].logprobs is not None
    content = chat.choices[0].logprobs.content
    assert content is not None
    assert [len(token.top_logprobs) for token in content] == [2, 2, 2]
    text = tiny_client.completions.create(
        model="tiny", prompt=PROMPT, logprobs=2, max_tokens=3, echo=True
    )
    logprobs = text.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.tokens is not None
    assert text.choices[0].text.startswith(PROMPT)


def test_logprobs_change_nothing_about_the_answer(tiny: ServerUnderTest) -> None:
    drawn = {"temperature": 1, "seed": 7, "max_tokens": 24}
    plain = complete(tiny, PROMPT, **drawn)["text"]
    assert complete(tiny, PROMPT, logprobs=20, prompt_logprobs=1, **drawn)["text"] == plain
