"""Nothing a client can send is answered with a 5xx, and every refusal says what to do."""

import json

import httpx
import pytest
from tests.api.serving import ServerUnderTest

pytestmark = pytest.mark.model

COMPLETIONS = "/v1/completions"
CHAT = "/v1/chat/completions"
USER = {"role": "user", "content": "hi"}


def post(
    server: ServerUnderTest,
    path: str,
    body: bytes,
    content_type: str | None = "application/json",
) -> httpx.Response:
    headers = {} if content_type is None else {"content-type": content_type}
    return httpx.post(f"{server.url}{path}", content=body, headers=headers, timeout=30.0)


def assert_refused(answer: httpx.Response, status: int, param: str | None, words: str) -> None:
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert words in error["message"]
    assert error["param"] == param


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "empty"),
        (b"{", "not valid JSON"),
        (b"[]", "not an array"),
        (b"null", "not null"),
        (b'"text"', "not a string"),
        (b'{"prompt": "x"} trailing', "not valid JSON"),
        (b'{"prompt": "x", "temperature": NaN}', "not valid JSON"),
        (b'{"prompt": "x", "temperature": Infinity}', "not valid JSON"),
        (b'{"prompt": "x", "temperature": 1e999}', "not valid JSON"),
        (b'{"prompt": "\\ud800"}', "not valid JSON"),
        (b'{"prompt": "\xff"}', "not valid JSON"),
        (b'{"prompt": "\xed\xa0\x80"}', "not valid JSON"),
        (b"\xef\xbb\xbf{}", "not valid JSON"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_a_body_that_is_no_json_object_is_refused(
    server: ServerUnderTest, body: bytes, words: str
) -> None:
    assert_refused(post(server, COMPLETIONS, body), 400, None, words)


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/x-www-form-urlencoded"])
def test_a_body_that_does_not_claim_to_be_json_is_refused(
    server: ServerUnderTest, content_type: str | None
) -> None:
    answer = post(server, COMPLETIONS, b'{"prompt": "x"}', content_type)
    assert_refused(answer, 400, None, "application/json")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "prompt"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": [""]}, "prompt"),
        ({"prompt": [[]]}, "prompt"),
        ({"prompt": None}, "prompt"),
        ({"prompt": 3}, "prompt"),
        ({"prompt": {"a": 1}}, "prompt"),
        ({"prompt": ["a", 1]}, "prompt"),
        ({"prompt": [1, "a"]}, "prompt"),
        ({"prompt": [True]}, "prompt"),
        ({"prompt": [1.5]}, "prompt"),
        ({"prompt": [-1]}, "prompt"),
        ({"prompt": [10**9]}, "prompt"),
        ({"prompt": [10**30]}, "prompt"),
        ({"prompt": ["a"] * 129}, "prompt"),
        ({"prompt": [1] * 100_000}, "prompt"),
        ({"prompt": "many words " * 20_000}, "prompt"),
        ({"prompt": "x", "temperature": -1}, "temperature"),
        ({"prompt": "x", "temperature": "hot"}, "temperature"),
        ({"prompt": "x", "top_p": 0}, "top_p"),
        ({"prompt": "x", "top_p": 1.1}, "top_p"),
        ({"prompt": "x", "top_k": -2}, "top_k"),
        ({"prompt": "x", "max_tokens": 0}, "max_tokens"),
        ({"prompt": "x", "max_tokens": -1}, "max_tokens"),
        ({"prompt": "x", "max_tokens": 1.5}, "max_tokens"),
        ({"prompt": "x", "max_tokens": "4"}, "max_tokens"),
        ({"prompt": "x", "max_tokens": 10**6}, "max_tokens"),
        ({"prompt": "x", "max_tokens": 10**30}, "max_tokens"),
        ({"prompt": "x", "seed": 2**64}, "seed"),
        ({"prompt": "x", "stop": ""}, "stop"),
        ({"prompt": "x", "stop": ["a"] * 65}, "stop"),
        ({"prompt": "x", "stop": 3}, "stop"),
        ({"prompt": "x", "stop": "a" * 5000}, "stop"),
        ({"prompt": "x", "stream": "yes"}, "stream"),
        ({"prompt": "x", "stream_options": {"include_usage": True}}, "stream_options"),
        ({"prompt": "x", "n": 0}, "n"),
        ({"prompt": "x", "n": 129}, "n"),
        ({"prompt": "x", "best_of": 2}, "best_of"),
        ({"prompt": "x", "echo": 1}, "echo"),
        ({"prompt": "x", "logprobs": 21}, "logprobs"),
        ({"prompt": "x", "logprobs": True}, "logprobs"),
        ({"prompt": "x", "prompt_logprobs": 21}, "prompt_logprobs"),
        ({"prompt": "x", "presence_penalty": 2.5}, "presence_penalty"),
        ({"prompt": "x", "frequency_penalty": -2.5}, "frequency_penalty"),
        ({"prompt": "x", "repetition_penalty": 0}, "repetition_penalty"),
        ({"prompt": "x", "min_p": 1.5}, "min_p"),
        ({"prompt": "x", "min_tokens": 30}, "min_tokens"),
        ({"prompt": "x", "logit_bias": {"1": 200}}, "logit_bias.1"),
        ({"prompt": "x", "logit_bias": {"one": 2}}, "logit_bias.one"),
        ({"prompt": "x", "logit_bias": {"999999999": 2}}, "logit_bias"),
        ({"prompt": "x", "logit_bias": {str(id_): 1 for id_ in range(2000)}}, "logit_bias"),
        ({"prompt": "x", "logit_bias": [1]}, "logit_bias"),
        ({"prompt": "x", "sufix": "y"}, "sufix"),
        ({"prompt": "x", "netgain": {"ledgr": True}}, "netgain.ledgr"),
        ({"prompt": "x", "netgain": {"timeout_s": -1}}, "netgain.timeout_s"),
        ({"prompt": "x", "netgain": 1}, "netgain"),
    ],
)
def test_a_completion_request_is_refused_by_the_name_of_its_fault(
    server: ServerUnderTest, fields: dict[str, object], param: str
) -> None:
    answer = post(server, COMPLETIONS, json.dumps(fields).encode())
    assert_refused(answer, 400, param, "")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": None}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": [3]}, "messages[0]"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [USER, {"role": "user", "content": 3}]}, "messages[1].content"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "messages[0].content[0].type",
        ),
        ({"messages": [{**USER, "mood": "good"}]}, "messages[0].mood"),
        ({"messages": [{**USER, "tool_calls": [{"id": "1"}]}]}, "messages[0].tool_calls"),
        ({"messages": [{**USER, "audio": {}}]}, "messages[0].audio"),
        ({"messages": [USER], "tools": [{"type": "function"}]}, "tools"),
        ({"messages": [USER], "response_format": {"type": "json_object"}}, "response_format"),
        ({"messages": [USER], "logprobs": 3}, "logprobs"),
        ({"messages": [USER], "top_logprobs": 3}, "top_logprobs"),
        ({"messages": [USER], "max_completion_tokens": 0}, "max_completion_tokens"),
        ({"messages": [USER], "max_tokens": 0}, "max_tokens"),
        ({"messages": [{"role": "user", "content": "many words " * 20_000}]}, "messages"),
    ],
)
def test_a_chat_request_is_refused_by_the_name_of_its_fault(
    server: ServerUnderTest, fields: dict[str, object], param: str
) -> None:
    assert_refused(post(server, CHAT, json.dumps(fields).encode()), 400, param, "")


def test_harmless_fields_are_accepted(server: ServerUnderTest) -> None:
    fields = {
        "messages": [USER],
        "max_tokens": 1,
        "user": "me",
        "metadata": {"a": "b"},
        "store": False,
        "service_tier": "auto",
        "safety_identifier": "x",
        "prompt_cache_key": "x",
        "parallel_tool_calls": True,
        "n": 1,
        "presence_penalty": 0,
        "frequency_penalty": 0.0,
        "logit_bias": None,
        "response_format": {"type": "text"},
        "tools": [],
        "logprobs": False,
        "netgain": None,
    }
    assert post(server, CHAT, json.dumps(fields).encode()).status_code == 200


def test_a_prompt_that_is_too_long_is_told_how_long(server: ServerUnderTest) -> None:
    limit = httpx.get(f"{server.url}/v1/models").json()["data"][0]["max_model_len"]
    answer = post(server, COMPLETIONS, json.dumps({"prompt": [1] * limit}).encode())
    assert_refused(answer, 400, "prompt", f"has {limit} tokens; at most {limit - 1}")
    assert answer.json()["error"]["code"] == "context_length_exceeded"


@pytest.mark.parametrize("declared", [True, False])
def test_a_body_over_the_limit_is_refused(server: ServerUnderTest, declared: bool) -> None:
    body = b'{"prompt": "' + b"x" * (9 << 20) + b'"}'
    pieces = iter([body[:1000], body[1000:]])
    answer = httpx.post(
        f"{server.url}{COMPLETIONS}",
        content=body if declared else pieces,
        headers={"content-type": "application/json"},
        timeout=30.0,
    )
    assert_refused(
        answer, 413, None, "larger than 8,388,608 bytes: send it in several requests, or"
    )


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/nothing", 404),
        ("GET", "/v1/completions", 405),
        ("DELETE", "/v1/models", 405),
        ("GET", "/v1/models/gpt-9", 404),
        ("GET", "/v1/requests/unknown/ledger", 404),
    ],
)
def test_what_is_not_there_is_an_openai_error_too(
    server: ServerUnderTest, method: str, path: str, status: int
) -> None:
    answer = httpx.request(method, f"{server.url}{path}")
    assert answer.status_code == status
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


def test_refusals_are_counted_and_leave_nothing_behind(server: ServerUnderTest) -> None:
    before = server.metric("netgain_http_errors_total", code="400")
    post(server, COMPLETIONS, b"{}")
    assert server.metric("netgain_http_errors_total", code="400") == before + 1
    assert server.metric("netgain_requests_running") == 0
    assert server.metric("netgain_requests_waiting") == 0
