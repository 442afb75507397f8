"""Several answers of one prompt: it is computed once, and each is a draw of its own."""

from typing import Any

import pytest
from openai import OpenAI
from tests.api.asking import CHAT, COMPLETIONS, answer, events, streamed, user
from tests.api.raw_http import RawRequest
from tests.api.serving import ServerUnderTest, within

PROMPT = "hello " * 30
DRAWN: dict[str, Any] = {"temperature": 1, "seed": 11, "max_tokens": 12, "ignore_eos": True}


def texts(body: dict[str, Any]) -> list[str]:
    assert [choice["index"] for choice in body["choices"]] == list(range(len(body["choices"])))
    return [choice["text"] for choice in body["choices"]]


def test_each_sample_is_another_draw_and_a_seed_fixes_all_of_them(tiny: ServerUnderTest) -> None:
    first = texts(answer(tiny, COMPLETIONS, prompt=PROMPT, n=4, **DRAWN))
    assert len(set(first)) == 4
    assert texts(answer(tiny, COMPLETIONS, prompt=PROMPT, n=4, **DRAWN)) == first
    assert texts(answer(tiny, COMPLETIONS, prompt=PROMPT, n=1, **DRAWN)) == first[:1]


def test_the_prompt_is_counted_and_computed_once(tiny: ServerUnderTest) -> None:
    one = answer(tiny, COMPLETIONS, prompt="once " * 40, n=1, **DRAWN)["usage"]
    before = tiny.metric("netgain_prefill_tokens_total")
    five = answer(tiny, COMPLETIONS, prompt="five " * 40, n=5, **DRAWN)["usage"]
    computed = tiny.metric("netgain_prefill_tokens_total") - before
    assert five["prompt_tokens"] == one["prompt_tokens"]
    assert five["completion_tokens"] == 5 * one["completion_tokens"]
    assert five["total_tokens"] == five["prompt_tokens"] + five["completion_tokens"]
    # Each sibling computes at most what is left over from the last full block.
    assert computed < five["prompt_tokens"] + 5 * 16


def test_several_prompts_with_several_samples_are_in_order(tiny: ServerUnderTest) -> None:
    both = texts(answer(tiny, COMPLETIONS, prompt=["hello", "1"], n=2, **DRAWN))
    alone = [texts(answer(tiny, COMPLETIONS, prompt=one, n=2, **DRAWN)) for one in ("hello", "1")]
    assert both == alone[0] + alone[1]


def test_streamed_samples_are_those_of_the_whole_answer(tiny: ServerUnderTest) -> None:
    whole = texts(answer(tiny, COMPLETIONS, prompt=PROMPT, n=3, **DRAWN))
    choices = streamed(tiny, COMPLETIONS, {"prompt": PROMPT, "n": 3, **DRAWN})
    assert [choices[index].text for index in range(3)] == whole
    assert {choice.finish_reason for choice in choices.values()} == {"length"}


def test_every_sample_echoes_the_prompt_with_its_logprobs(tiny: ServerUnderTest) -> None:
    fields = {**DRAWN, "prompt": PROMPT, "n": 3, "echo": True, "logprobs": 1}
    body = answer(tiny, COMPLETIONS, **fields)
    prompt_tokens = body["usage"]["prompt_tokens"]
    first = body["choices"][0]["logprobs"]["token_logprobs"][:prompt_tokens]
    choices = streamed(tiny, COMPLETIONS, fields)
    for index, choice in enumerate(body["choices"]):
        assert choice["text"].startswith(PROMPT)
        assert choice["logprobs"]["token_logprobs"][:prompt_tokens] == first
        assert len(choice["logprobs"]["tokens"]) == prompt_tokens + 12
        assert choices[index].text == choice["text"]


def test_the_official_client_gets_n_chats(tiny_client: OpenAI) -> None:
    chat = tiny_client.chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": "hello"}], n=3, max_tokens=4, seed=1
    )
    assert [choice.index for choice in chat.choices] == [0, 1, 2]
    assert all(choice.message.role == "assistant" for choice in chat.choices)
    seen: dict[int, str] = {}
    for chunk in tiny_client.chat.completions.create(
        model="tiny",
        messages=[{"role": "user", "content": "hello"}],
        n=3,
        max_tokens=4,
        seed=1,
        stream=True,
    ):
        for part in chunk.choices:
            seen[part.index] = seen.get(part.index, "") + (part.delta.content or "")
    assert [seen[index] for index in range(3)] == [
        choice.message.content for choice in chat.choices
    ]


def test_a_stream_of_samples_ends_with_their_usage_together(tiny: ServerUnderTest) -> None:
    fields = {
        "messages": [user("hello")],
        "n": 2,
        **DRAWN,
        "stream_options": {"include_usage": True},
    }
    said = list(events(tiny, CHAT, fields))
    assert all(event["usage"] is None for event in said[:-1])
    assert said[-1]["choices"] == []
    assert said[-1]["usage"]["completion_tokens"] == 24
    roles = [c["delta"]["role"] for e in said for c in e["choices"] if "role" in c["delta"]]
    assert roles == ["assistant", "assistant"]


@pytest.mark.parametrize("stream", [False, True])
def test_leaving_ends_every_sample_and_counts_each_once(
    tiny: ServerUnderTest, stream: bool
) -> None:
    aborted = tiny.metric("netgain_requests_total", finish_reason="abort")
    decoded = tiny.metric("netgain_decode_tokens_total")
    fields = {"prompt": PROMPT, "n": 2, "max_tokens": 1900, "ignore_eos": True, "stream": stream}
    with RawRequest(tiny.port, COMPLETIONS, fields) as request:
        if stream:
            request.read_until(b"data: ")
        assert within(10, lambda: tiny.metric("netgain_decode_tokens_total") > decoded)
    assert within(
        1,
        lambda: (
            tiny.metric("netgain_requests_running") == 0
            and tiny.metric("netgain_requests_waiting") == 0
            and tiny.metric("netgain_kv_blocks_used") == 0
        ),
    )
    assert within(
        1, lambda: tiny.metric("netgain_requests_total", finish_reason="abort") == aborted + 2
    )
