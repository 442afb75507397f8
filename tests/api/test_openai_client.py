"""The official client against a real server with the default model."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import openai
import pytest
from openai import OpenAI
from tests.api.serving import ServerUnderTest, within

from netgain.models.tokenizer_source import load_tokenizer

pytestmark = pytest.mark.model

MODEL = "smollm2-135m-instruct"
SPLIT_CHARACTERS = "Repeat exactly: 삼겹살 😀 ďábelské"


def complete(client: OpenAI, prompt: str, max_tokens: int = 24, **options: object) -> str:
    answer = client.completions.create(
        model=MODEL,
        prompt=prompt,
        max_tokens=max_tokens,
        temperature=0,
        extra_body={"ignore_eos": True, **options},
    )
    return answer.choices[0].text


def streamed(client: OpenAI, prompt: str, max_tokens: int = 24, **options: object) -> list[str]:
    stream = client.completions.create(
        model=MODEL,
        prompt=prompt,
        max_tokens=max_tokens,
        temperature=0,
        stream=True,
        extra_body={"ignore_eos": True, **options},
    )
    return [chunk.choices[0].text for chunk in stream]


def test_the_served_model_is_listed_and_retrievable(client: OpenAI) -> None:
    assert [model.id for model in client.models.list()] == [MODEL]
    assert client.models.retrieve(MODEL).id == MODEL


def test_an_unknown_model_is_not_found(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.completions.create(model="gpt-9", prompt="x")
    assert caught.value.code == "model_not_found"


def test_a_completion_has_text_reason_and_usage(client: OpenAI) -> None:
    answer = client.completions.create(
        model=MODEL, prompt="The capital of France is", max_tokens=8, temperature=0
    )
    assert "Paris" in answer.choices[0].text
    assert answer.choices[0].finish_reason == "length"
    assert answer.object == "text_completion"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 8
    assert answer.usage.prompt_tokens == 5
    assert answer.usage.total_tokens == 13


def test_completions_default_to_sixteen_tokens(client: OpenAI) -> None:
    answer = client.completions.create(
        model=MODEL, prompt="Count: 1, 2, 3,", temperature=0, extra_body={"ignore_eos": True}
    )
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 16


def test_joined_deltas_equal_the_whole_text(client: OpenAI) -> None:
    prompt = "Once upon a time"
    assert "".join(streamed(client, prompt)) == complete(client, prompt)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_seed_fixes_the_text(client: OpenAI, seed: int) -> None:
    def draw() -> str:
        answer = client.completions.create(
            model=MODEL, prompt="A colour:", max_tokens=8, temperature=1.0, seed=seed
        )
        return answer.choices[0].text

    assert draw() == draw()


def test_characters_split_over_tokens_arrive_whole(client: OpenAI) -> None:
    stream = client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": SPLIT_CHARACTERS}],
        max_tokens=48,
        temperature=0,
        stream=True,
    )
    deltas = [chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices]
    whole = client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": SPLIT_CHARACTERS}],
        max_tokens=48,
        temperature=0,
    )
    assert "".join(deltas) == whole.choices[0].message.content
    assert not any("\ufffd" in delta for delta in deltas)
    assert any(character in "".join(deltas) for character in "삼겹살😀ďá")


def test_a_chat_stream_begins_with_the_role_and_ends_with_the_usage(client: OpenAI) -> None:
    stream = client.chat.completions.create(
        model=MODEL,
        messages=[
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "Say hello."}]},
        ],
        max_completion_tokens=6,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens <= 6
    assert chunks[-2].choices[0].finish_reason in ("stop", "length")


def test_a_chat_without_a_limit_ends_where_the_model_ends_it(client: OpenAI) -> None:
    answer = client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "What is the capital of France?"}],
        temperature=0,
    )
    assert answer.choices[0].finish_reason == "stop"
    assert "Paris" in (answer.choices[0].message.content or "")
    assert "<|im_end|>" not in (answer.choices[0].message.content or "")


def test_the_developer_role_is_the_system_role(client: OpenAI) -> None:
    def ask(role: str) -> int:
        answer = client.chat.completions.create(
            model=MODEL,
            messages=[{"role": role, "content": "x"}, {"role": "user", "content": "y"}],  # type: ignore[misc,list-item]
            max_tokens=1,
        )
        assert answer.usage is not None
        return answer.usage.prompt_tokens

    assert ask("developer") == ask("system")


def test_a_stop_string_that_spans_tokens_cuts_the_text(client: OpenAI) -> None:
    prompt = "Once upon a time"
    text = complete(client, prompt)
    at = len(text) // 2
    stop = text[at - 3 : at + 3]
    expected = text[: text.index(stop)]
    answer = client.completions.create(
        model=MODEL, prompt=prompt, max_tokens=24, temperature=0, stop=[stop, "never said"]
    )
    assert answer.choices[0].text == expected
    assert answer.choices[0].finish_reason == "stop"
    assert "".join(streamed(client, prompt, stop=stop)) == expected


def test_a_stop_token_ends_the_text_without_being_shown(client: OpenAI, default_gguf: Path) -> None:
    paris = load_tokenizer(default_gguf).encode(" Paris")
    answer = client.completions.create(
        model=MODEL,
        prompt="The capital of France is",
        max_tokens=8,
        temperature=0,
        extra_body={"stop_token_ids": paris[:1]},
    )
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].text == ""
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 1


def test_several_prompts_make_several_choices(client: OpenAI) -> None:
    prompts = ["The capital of France is", "Once upon a time"]
    answer = client.completions.create(
        model=MODEL, prompt=prompts, max_tokens=6, temperature=0, extra_body={"ignore_eos": True}
    )
    alone = [complete(client, prompt, 6) for prompt in prompts]
    assert [choice.index for choice in answer.choices] == [0, 1]
    assert [choice.text for choice in answer.choices] == alone
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 12


def test_streamed_choices_carry_their_index(client: OpenAI) -> None:
    texts = ["", ""]
    for chunk in client.completions.create(
        model=MODEL, prompt=["One", "Two"], max_tokens=4, temperature=0, stream=True
    ):
        texts[chunk.choices[0].index] += chunk.choices[0].text
    assert texts == [complete(client, "One", 4), complete(client, "Two", 4)]


def test_token_ids_are_taken_as_they_are(client: OpenAI) -> None:
    answer = client.completions.create(
        model=MODEL, prompt=[504, 3575, 282, 4649, 314], max_tokens=4, temperature=0
    )
    assert answer.choices[0].text == complete(client, "The capital of France is", 4)


def cached_tokens(client: OpenAI, prompt: str, salt: str = "") -> int:
    """Prompt tokens that the prefix cache served."""
    answer = client.completions.create(
        model=MODEL, prompt=prompt, max_tokens=1, extra_body={"netgain": {"cache_salt": salt}}
    )
    assert answer.usage is not None
    assert answer.usage.prompt_tokens_details is not None
    return answer.usage.prompt_tokens_details.cached_tokens or 0


def test_a_repeated_prompt_is_served_from_the_prefix_cache(client: OpenAI) -> None:
    prompt = "All work and no play makes Jack a dull boy. " * 12
    assert cached_tokens(client, prompt) == 0
    assert cached_tokens(client, prompt) >= 64


def test_a_cache_salt_shares_nothing_with_other_salts(client: OpenAI) -> None:
    prompt = "The quick brown fox jumps over the lazy dog. " * 12
    assert cached_tokens(client, prompt, "mine") == 0
    assert cached_tokens(client, prompt, "mine") > 0
    assert cached_tokens(client, prompt, "yours") == 0


def test_emptying_the_prefix_cache_forgets_prompts(server: ServerUnderTest, client: OpenAI) -> None:
    prompt = "She sells sea shells by the sea shore. " * 12
    cached_tokens(client, prompt)
    assert httpx.post(f"{server.url}/reset_prefix_cache").raise_for_status().json()["blocks"] > 0
    assert cached_tokens(client, prompt) == 0


def test_a_request_keeps_the_id_it_came_with(server: ServerUnderTest) -> None:
    def ask(id_: str) -> str:
        answer = httpx.post(
            f"{server.url}/v1/completions",
            json={"prompt": "x", "max_tokens": 1},
            headers={"x-request-id": id_},
        )
        return str(answer.raise_for_status().headers["x-request-id"])

    assert ask("my-own.id_1") == "my-own.id_1"
    again = ask("my-own.id_1")
    assert again.startswith("my-own.id_1-")
    assert ask("not an id!") != "not an id!"


def test_a_client_cannot_name_a_part_of_another_request(server: ServerUnderTest) -> None:
    def ask(id_: str, prompt: object, tokens: int) -> httpx.Response:
        return httpx.post(
            f"{server.url}/v1/completions",
            json={"prompt": prompt, "max_tokens": tokens, "ignore_eos": True},
            headers={"x-request-id": id_},
            timeout=30,
        )

    with ThreadPoolExecutor(1) as other:
        pair = other.submit(ask, "pair", ["One", "Two"], 60)
        assert within(10, lambda: server.metric("netgain_requests_running") == 2)
        assert ask("pair-0", "Three", 1).status_code == 200
        assert len(pair.result().json()["choices"]) == 2


def test_a_deadline_ends_a_request(server: ServerUnderTest, client: OpenAI) -> None:
    with pytest.raises(openai.APIStatusError) as caught:
        client.completions.create(
            model=MODEL,
            prompt="Count to a thousand: 1, 2, 3,",
            max_tokens=1500,
            extra_body={"ignore_eos": True, "netgain": {"timeout_s": 0.5}},
        )
    assert caught.value.status_code == 408
    assert caught.value.code == "deadline_exceeded"


def test_a_deadline_in_a_stream_is_an_event(client: OpenAI) -> None:
    stream = client.completions.create(
        model=MODEL,
        prompt="Count to a thousand: 1, 2, 3,",
        max_tokens=1500,
        stream=True,
        extra_body={"ignore_eos": True, "netgain": {"timeout_s": 0.7}},
    )
    with pytest.raises(openai.APIError, match="deadline"):
        for _ in stream:
            pass
