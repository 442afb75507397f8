"""What the request bodies mean; refusals are tested from outside (tests/api)."""

import pytest
from pydantic import ValidationError

from netgain.server.errors import ApiError
from netgain.server.protocol import (
    IGNORED_FIELDS,
    UNBUILT_FIELDS,
    ChatRequest,
    CompletionRequest,
    parse_prompts,
)


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
    assert parse_prompts(prompt, 10) == expected


def test_defaults_are_those_of_openai() -> None:
    sampling = CompletionRequest.parse({"prompt": "x"})
    params = sampling.sampling(sampling.limit())
    assert (params.temperature, params.top_p, params.max_tokens) == (1.0, 1.0, 16)
    chat = ChatRequest.parse({"messages": [{"role": "user", "content": "x"}]})
    assert chat.limit() is None


def test_the_newer_name_of_the_limit_wins() -> None:
    fields = {"messages": [{"role": "user", "content": "x"}]}
    both = ChatRequest.parse({**fields, "max_tokens": 3, "max_completion_tokens": 5})
    assert both.limit() == 5


def test_every_unbuilt_field_accepts_null_and_refuses_what_asks_for_something() -> None:
    for name in UNBUILT_FIELDS:
        CompletionRequest.parse({"prompt": "x", name: None})
        with pytest.raises(ApiError) as caught:
            CompletionRequest.parse({"prompt": "x", name: 12345})
        assert caught.value.status == 400
        assert caught.value.detail.param == name


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


def test_a_refusal_does_not_repeat_the_prompt() -> None:
    with pytest.raises(ApiError) as caught:
        ChatRequest.parse({"messages": [{"role": "user", "content": {"secret words": 1}}]})
    assert "secret" not in str(caught.value)


MANY = 100_000
MANY_FIELDS = {f"field{at}": 1 for at in range(MANY)}
USER = {"role": "user", "content": "x"}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"stop": [1] * MANY}, "stop[0]"),
        ({"stop_token_ids": ["x"] * MANY}, "stop_token_ids[0]"),
        ({"messages": [{"role": "user", "content": [{}] * MANY}]}, "messages[0].content[0].type"),
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
