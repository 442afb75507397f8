"""Embeddings by the served model."""

import base64
import math
import struct
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI
from tests.api.asking import answer, post
from tests.api.raw_http import RawRequest
from tests.api.serving import ServerUnderTest, serving, within

PATH = "/v1/embeddings"
SIZE = 64
"""The tiny model's hidden size."""


def embed(server: ServerUnderTest, given: object, **fields: object) -> list[list[float]]:
    body = answer(server, PATH, input=given, **fields)
    assert [one["index"] for one in body["data"]] == list(range(len(body["data"])))
    return [one["embedding"] for one in body["data"]]


def test_an_embedding_has_the_models_size_and_length_one(tiny: ServerUnderTest) -> None:
    (one,) = embed(tiny, "hello hello")
    assert len(one) == SIZE
    assert math.sqrt(sum(x * x for x in one)) == pytest.approx(1, abs=1e-5)


def test_all_forms_of_an_input_are_the_same(tiny: ServerUnderTest) -> None:
    ids = answer(tiny, "/tokenize", prompt="hello é")["tokens"]
    (text,) = embed(tiny, "hello é")
    assert embed(tiny, ["hello é"]) == [text]
    assert embed(tiny, ids) == [text]
    assert embed(tiny, [ids, ids]) == [text, text]


def test_an_embedding_depends_on_its_own_input_alone(tiny: ServerUnderTest) -> None:
    inputs = ["hello", "1 2 3", "é " * 50, "hello hello"]
    together = embed(tiny, inputs)
    assert together == [embed(tiny, one)[0] for one in inputs]
    assert len({tuple(one) for one in together}) == 4


def test_base64_is_the_float32_of_the_numbers(tiny: ServerUnderTest) -> None:
    (numbers,) = embed(tiny, "hello")
    (coded,) = answer(tiny, PATH, input="hello", encoding_format="base64")["data"]
    raw = base64.b64decode(coded["embedding"])
    assert list(struct.unpack(f"<{SIZE}f", raw)) == pytest.approx(numbers, abs=1e-7)


def test_the_official_client_gets_numbers(tiny: ServerUnderTest, tiny_client: OpenAI) -> None:
    answered = tiny_client.embeddings.create(model="tiny", input=["hello", "1"])
    assert [one.embedding for one in answered.data] == [
        pytest.approx(one, abs=1e-7) for one in embed(tiny, ["hello", "1"])
    ]
    assert answered.model == "tiny"
    assert answered.usage.prompt_tokens == answered.usage.total_tokens == 2


def test_more_inputs_than_the_engine_holds_are_embedded_all_the_same(
    tiny: ServerUnderTest,
) -> None:
    found = embed(tiny, [f"hello {number % 7}" for number in range(700)])
    assert len(found) == 700
    assert found[:7] == found[693:]


def test_a_server_of_few_places_embeds_long_lists_too(tiny_folder: Path) -> None:
    flags = ("--model", str(tiny_folder), "--max-num-seqs", "3", "--max-queue", "3")
    with serving(*flags) as few:
        assert len(embed(few, ["hello"] * 2048)) == 2048
        assert few.metric("netgain_http_errors_total", code="400") == 0


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "input"),
        ({"input": ""}, "input"),
        ({"input": []}, "input"),
        ({"input": ["hello", ""]}, "input"),
        ({"input": None}, "input"),
        ({"input": [1, "a"]}, "input"),
        ({"input": ["x"] * 2049}, "input"),
        ({"input": "hello " * 100_000}, "input"),
        ({"input": [3] * 2049}, "input"),
        ({"input": [288]}, "input"),
        ({"input": "x", "dimensions": 32}, "dimensions"),
        ({"input": "x", "dimensions": 0}, "dimensions"),
        ({"input": "x", "encoding_format": "hex"}, "encoding_format"),
        ({"input": "x", "mood": 1}, "mood"),
    ],
)
def test_what_cannot_be_embedded_is_refused_by_name(
    tiny: ServerUnderTest, fields: dict[str, object], param: str
) -> None:
    response = post(tiny, PATH, fields)
    assert response.status_code == 400, response.text
    assert response.json()["error"]["param"] == param


def test_an_input_may_fill_the_context(tiny: ServerUnderTest) -> None:
    full, less = embed(tiny, [[5] * 2047 + [7], [5] * 2047])
    assert full != less
    error = post(tiny, PATH, {"input": [[5] * 2049]}).json()["error"]
    assert "an input has 2049 tokens; at most 2048 fit" in error["message"]
    assert "answer" not in error["message"]


@pytest.mark.parametrize("extra", [0, 1])
def test_tokens_and_texts_that_fill_the_context_are_turned_into_each_other(
    tiny: ServerUnderTest, extra: int
) -> None:
    text = post(tiny, "/tokenize", {"prompt": "1" * (2048 + extra)})
    ids = post(tiny, "/detokenize", {"tokens": [5] * (2048 + extra)})
    assert (text.status_code, ids.status_code) == ((400, 400) if extra else (200, 200))
    if extra:
        assert "answer" not in text.text + ids.text


def test_the_models_own_size_may_be_asked_for(tiny: ServerUnderTest) -> None:
    assert embed(tiny, "x", dimensions=SIZE, user="me") == embed(tiny, "x")


def test_leaving_ends_what_is_left(tiny: ServerUnderTest) -> None:
    before = tiny.metric("netgain_prefill_tokens_total")
    fields: dict[str, object] = {"input": ["hello " * 1900] * 500}
    with RawRequest(tiny.port, PATH, fields):
        assert within(10, lambda: tiny.metric("netgain_prefill_tokens_total") > before)
    assert within(
        1,
        lambda: (
            tiny.metric("netgain_requests_running") == 0
            and tiny.metric("netgain_requests_waiting") == 0
            and tiny.metric("netgain_kv_blocks_used") == 0
        ),
    )


@pytest.mark.model
def test_texts_about_the_same_are_closer_than_others(server: ServerUnderTest) -> None:
    """A language model's mean-pooled states are no sentence embedding, but they are not noise."""
    cat, kitten, bond = embed(
        server,
        [
            "A cat sleeps on the sofa.",
            "The kitten is asleep on the couch.",
            "The yield of ten-year government bonds fell to 3.9 %.",
        ],
    )

    def product(left: list[float], right: list[float]) -> float:
        return sum(x * y for x, y in zip(left, right, strict=True))

    assert product(cat, kitten) > product(cat, bond)


def test_an_answer_says_where_its_time_went(tiny: ServerUnderTest) -> None:
    response: Any = post(tiny, PATH, {"input": "hello " * 100})
    assert "prefill;dur=" in response.headers["server-timing"]
