"""What the request bodies mean; refusals are tested from outside (tests/api)."""

import time

import pytest
from pydantic import ValidationError

from netgain.server.errors import ApiError
from netgain.server.fields import MAX_FIELDS
from netgain.server.prompts import PromptLimits, parse_prompts
from netgain.server.protocol import (
    IGNORED_FIELDS,
    UNBUILT_FIELDS,
    ChatRequest,
    CompletionRequest,
)
from netgain.server.token_requests import TokenizeRequest

USER = {"role": "user", "content": "x"}


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("a", ("a",)),
        (["a", "b"], ("a", "b")),
        ([1, 2], ((1, 2),)),
        ([[1, 2], [3]], ((1, 2), (3,))),
    ],
)
def test_a_prompt_has_four_forms(prompt: object, expected: tuple[object, ...]) -> None:
    assert parse_prompts(prompt, PromptLimits(11, 10)) == expected


def test_defaults_are_those_of_openai() -> None:
    params = CompletionRequest.parse({"prompt": "x"}).sampling()
    assert (params.temperature, params.top_p, params.max_tokens) == (1.0, 1.0, 16)
    chat = ChatRequest.parse({"messages": [{"role": "user", "content": "x"}]})
    assert chat.sampling().max_tokens is None


def test_the_newer_name_of_the_limit_wins() -> None:
    fields = {"messages": [{"role": "user", "content": "x"}]}
    both = ChatRequest.parse({**fields, "max_tokens": 3, "max_completion_tokens": 5})
    assert both.sampling().max_tokens == 5


def test_every_unbuilt_field_accepts_null_and_refuses_what_asks_for_something() -> None:
    for name in UNBUILT_FIELDS:
        CompletionRequest.parse({"prompt": "x", name: None})
        with pytest.raises(ApiError) as caught:
            CompletionRequest.parse({"prompt": "x", name: 12345})
        assert caught.value.status == 400
        assert caught.value.detail.param == name
        for harmless in UNBUILT_FIELDS[name].harmless:
            CompletionRequest.parse({"prompt": "x", name: harmless})


def test_null_is_the_same_as_leaving_a_field_out() -> None:
    optional = {
        name: None for name, field in ChatRequest.model_fields.items() if not field.is_required()
    }
    plain = ChatRequest.parse({"messages": [USER]})
    assert ChatRequest.parse({"messages": [USER], **optional}) == plain


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"min_p": 0.1}, {"min_p": 0.1}),
        ({"repetition_penalty": 1.5}, {"repetition_penalty": 1.5}),
        ({"presence_penalty": -2}, {"presence_penalty": -2.0}),
        ({"frequency_penalty": 2}, {"frequency_penalty": 2.0}),
        ({"logit_bias": {"5": 1, "7": -100}}, {"logit_bias": ((5, 1.0), (7, -100.0))}),
        ({"min_tokens": 3}, {"min_tokens": 3}),
        ({"ignore_eos": True}, {"ignore_eos": True}),
        ({"stop_token_ids": [3]}, {"stop_token_ids": (3,)}),
        ({"stop": "x"}, {"stop": ("x",)}),
        ({"seed": -5}, {"seed": -5}),
        ({"logprobs": 0}, {"logprobs": 0, "prompt_logprobs": None}),
        ({"logprobs": 2, "echo": True}, {"logprobs": 2, "prompt_logprobs": 2}),
        ({"logprobs": 2, "echo": True, "prompt_logprobs": 4}, {"prompt_logprobs": 4}),
        ({"max_tokens": 0, "echo": True}, {"max_tokens": 1}),
    ],
)
def test_each_field_reaches_the_engine(
    fields: dict[str, object], expected: dict[str, object]
) -> None:
    params = CompletionRequest.parse({"prompt": "x", **fields}).sampling()
    assert {name: getattr(params, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"logprobs": True}, 0),
        ({"logprobs": True, "top_logprobs": 20}, 20),
        ({"logprobs": False}, None),
    ],
)
def test_a_chat_asks_for_logprobs_with_two_fields(
    fields: dict[str, object], expected: int | None
) -> None:
    assert ChatRequest.parse({"messages": [USER], **fields}).sampling().logprobs == expected


def test_ignored_fields_change_nothing() -> None:
    plain = CompletionRequest.parse({"prompt": "x"})
    assert plain == CompletionRequest.parse({"prompt": "x", **dict.fromkeys(IGNORED_FIELDS, 1)})


def test_no_field_is_both_served_and_refused() -> None:
    served = {*CompletionRequest.model_fields, *ChatRequest.model_fields}
    assert not served & set(UNBUILT_FIELDS)
    assert not served & IGNORED_FIELDS
    assert not IGNORED_FIELDS & set(UNBUILT_FIELDS)


def test_text_parts_are_joined_and_developers_are_the_system() -> None:
    request = ChatRequest.parse(
        {
            "messages": [
                {"role": "developer", "content": "be brief"},
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
                },
            ]
        }
    )
    assert [message.for_template() for message in request.messages] == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "ab"},
    ]


def test_the_parts_of_all_contents_together_are_bounded() -> None:
    part = {"type": "text", "text": "a"}
    full = [{"role": "user", "content": [part] * 1024}] * 4
    for request in (ChatRequest, TokenizeRequest):
        request.parse({"messages": full})
        with pytest.raises(ApiError, match="4097 parts; at most 4096") as caught:
            request.parse({"messages": [*full, {"role": "user", "content": [part]}]})
        assert caught.value.detail.param == "messages"


@pytest.mark.parametrize(
    "fields",
    [
        {"messages": [3]},
        {"messages": [{"role": "user", "content": [3]}]},
        {"messages": [{**USER, "refusal": "no"}]},
        {"messages": [{**USER, "audio": {}}]},
        {"messages": [{**USER, "tool_calls": [{}]}]},
        {"messages": [USER] * 5000},
        {"logit_bias": {"one": 1}},
        {"logit_bias": [1]},
        {"stop": ["a"] * 65},
        {"stop": 1},
        {"stop_token_ids": [1] * 2000},
        {"netgain": 1},
        {"stream_options": 1},
        {"max_tokens": 10**30},
        {"seed": 10**30},
        {"temperature": 10**400},
        {"model": 3},
    ],
)
def test_a_refusal_is_in_plain_words(fields: dict[str, object]) -> None:
    with pytest.raises(ApiError) as caught:
        ChatRequest.parse({"messages": [USER], **fields})
    words = str(caught.value)
    for foreign in ("dictionary", "instance", "None", "validation", "pattern", "^", "Python"):
        assert foreign not in words
    assert len(words) < 200


def test_a_refusal_does_not_repeat_the_prompt() -> None:
    with pytest.raises(ApiError) as caught:
        ChatRequest.parse({"messages": [{"role": "user", "content": {"secret words": 1}}]})
    assert "secret" not in str(caught.value)


def test_a_million_fields_cost_what_a_few_do() -> None:
    fields: dict[str, object] = {f"field{at}": 1 for at in range(1_000_000)}
    for request in (ChatRequest, CompletionRequest):
        began_s = time.thread_time()
        with pytest.raises(ApiError) as caught:
            request.parse(fields)
        assert time.thread_time() - began_s < 0.05
        assert caught.value.status == 400


def test_no_request_can_hold_more_known_fields_than_are_looked_at() -> None:
    for request in (ChatRequest, CompletionRequest):
        known = {*request.model_fields, *UNBUILT_FIELDS, *IGNORED_FIELDS}
        assert len(known) <= MAX_FIELDS
        faulty: dict[str, object] = {f"field{at}": 1 for at in range(MAX_FIELDS)}
        with pytest.raises(ApiError) as caught:
            request.parse(faulty | {"tools": [1]})
        assert caught.value.detail.param == "tools"


MANY = 100_000
MANY_FIELDS = {f"field{at}": 1 for at in range(MANY)}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"stop": [1] * MANY}, "stop[0]"),
        ({"stop_token_ids": ["x"] * MANY}, "stop_token_ids[0]"),
        ({"messages": [{"role": "user", "content": [{}] * 4000}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "user", "content": [{}] * MANY}]}, "messages"),
        ({"messages": [{"role": "user", "content": [{}] * 1000}] * 100}, "messages"),
        ({"messages": [1] * MANY}, "messages[0]"),
        ({"messages": [{**USER, **MANY_FIELDS}]}, "messages[0].field0"),
        ({"netgain": MANY_FIELDS}, "netgain.field0"),
        (MANY_FIELDS, "field0"),
    ],
)
def test_a_hundred_thousand_faults_cost_what_one_does(
    fields: dict[str, object], param: str
) -> None:
    with pytest.raises(ApiError) as caught:
        ChatRequest.parse({"messages": [USER], **fields})
    assert caught.value.detail.param == param
    fault = caught.value.__cause__
    assert isinstance(fault, ValidationError)
    assert fault.error_count() < 8
