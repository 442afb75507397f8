"""What `/openapi.json` says is what the server does."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from tests.api.asking import CHAT, COMPLETIONS, answer, user
from tests.api.http_fuzzing import FLAGS, fuzz
from tests.api.serving import ServerUnderTest, serving

from netgain.server.protocol import ChatRequest, CompletionRequest


@pytest.fixture(scope="module")
def short(tiny_folder: Path) -> Iterator[ServerUnderTest]:
    with serving("--model", str(tiny_folder), *FLAGS) as server:
        yield server


@pytest.mark.parametrize("seed", [1])
def test_generated_requests_find_no_server_error(short: ServerUnderTest, seed: int) -> None:
    """A bounded share of what `make fuzz-http` sends."""
    fuzzed = fuzz(short.url, 20, seed=seed)
    assert fuzzed.passed, fuzzed.output
    assert fuzzed.cases >= 300
    assert short.metric("netgain_http_errors_total", code="500") == 0
    assert short.metric("netgain_engine_restarts_total") == 0
    assert answer(short, COMPLETIONS, prompt="1", max_tokens=1)["choices"]


@pytest.fixture(scope="module")
def described(tiny: ServerUnderTest) -> dict[str, Any]:
    found: dict[str, Any] = tiny.get("/openapi.json").raise_for_status().json()
    return found


def schema_of(described: dict[str, Any], name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}", "components": described["components"]}


def test_every_request_and_answer_is_a_named_component(described: dict[str, Any]) -> None:
    for path, operations in described["paths"].items():
        for operation in operations.values():
            if "requestBody" in operation:
                body = operation["requestBody"]["content"]["application/json"]["schema"]
                assert body["$ref"].rpartition("/")[2] in described["components"]["schemas"]
            for response in operation["responses"].values():
                for media, content in response["content"].items():
                    if media == "application/json":
                        assert content["schema"].keys() <= {"$ref", "anyOf"}, path


def test_every_served_field_is_described_with_words(described: dict[str, Any]) -> None:
    schemas = described["components"]["schemas"]
    for model in (CompletionRequest, ChatRequest):
        properties = schemas[model.__name__]["properties"]
        assert set(model.model_fields) <= set(properties)
        for name in model.model_fields:
            assert properties[name]["description"]
        assert schemas[model.__name__]["additionalProperties"] is False


@pytest.mark.parametrize(
    ("path", "fields", "name"),
    [
        (COMPLETIONS, {"prompt": "hello"}, "Completion"),
        (
            COMPLETIONS,
            {
                "prompt": "hello",
                "n": 2,
                "echo": True,
                "logprobs": 2,
                "prompt_logprobs": 1,
                "netgain": {"ledger": True},
            },
            "Completion",
        ),
        (CHAT, {"messages": [user("hello")], "max_tokens": 3}, "ChatCompletion"),
        (
            CHAT,
            {
                "messages": [user("hello")],
                "max_tokens": 3,
                "logprobs": True,
                "top_logprobs": 2,
                "prompt_logprobs": 0,
            },
            "ChatCompletion",
        ),
        ("/v1/embeddings", {"input": "hello"}, "EmbeddingList"),
        ("/tokenize", {"prompt": "hello", "return_token_strs": True}, "Tokenized"),
    ],
)
def test_an_answer_is_of_the_described_form(
    tiny: ServerUnderTest,
    described: dict[str, Any],
    path: str,
    fields: dict[str, object],
    name: str,
) -> None:
    jsonschema_rs.validate(schema_of(described, name), answer(tiny, path, **fields))


@pytest.mark.parametrize(
    "fields",
    [
        {"prompt": "x", "temperature": 101},
        {"prompt": "x", "top_p": 0},
        {"prompt": "x", "stop": ["a"] * 65},
        {"prompt": "x", "logit_bias": {"one": 1}},
        {"prompt": "x", "best_of": 2},
        {"prompt": "x", "tools": [1]},
        {"prompt": "x", "mood": 1},
        {"prompt": []},
        {},
    ],
)
def test_what_is_refused_is_described_as_forbidden(
    described: dict[str, Any], fields: dict[str, object]
) -> None:
    schema = schema_of(described, "CompletionRequest")
    assert not jsonschema_rs.is_valid(schema, fields)
    allowed: dict[str, object] = {
        "prompt": "x",
        "top_p": None,
        "best_of": 1,
        "tools": [],
        "user": "me",
    }
    assert jsonschema_rs.is_valid(schema, allowed)


def test_the_page_lists_every_endpoint_and_no_other(described: dict[str, Any]) -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "http-api.md").read_text("utf-8")
    listed = set(re.findall(r"^\| `(GET|POST) (\S+)` \|", page, re.MULTILINE))
    served = {
        (method.upper(), path)
        for path, operations in described["paths"].items()
        for method in operations
    }
    assert listed == served | {("GET", "/openapi.json")}
