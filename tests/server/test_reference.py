"""The page that lists the fields is made from the types, and lists every endpoint."""

import re
from pathlib import Path

import pytest

from netgain.server.embedding_requests import EmbeddingRequest
from netgain.server.protocol import ChatRequest, CompletionRequest
from netgain.server.reference import rewritten, tables
from netgain.server.token_requests import DetokenizeRequest, TokenizeRequest

PAGE = Path(__file__).parent.parent.parent / "docs" / "http-api.md"


def test_the_page_is_as_the_types_are() -> None:
    text = PAGE.read_text("utf-8")
    assert text == rewritten(text), "run `make docs`"


def test_every_table_is_on_the_page() -> None:
    assert set(re.findall(r"<!-- fields: (\w+) -->", PAGE.read_text("utf-8"))) == set(tables())


@pytest.mark.parametrize(
    "model",
    [CompletionRequest, ChatRequest, EmbeddingRequest, TokenizeRequest, DetokenizeRequest],
)
def test_every_accepted_field_has_a_row_with_words(model: type) -> None:
    text = PAGE.read_text("utf-8")
    for name in model.model_fields:  # type: ignore[attr-defined]
        rows = re.findall(rf"^\| `{name}` \| (.+) \| (.+) \| (.+) \|$", text, re.MULTILINE)
        assert rows, name


def test_bounds_are_in_the_tables() -> None:
    made = tables()
    assert "| `temperature` | number, 0 to 100 | `1.0` |" in made["Generation"]
    assert "object, at most 1,024 entries of (number, -100 to 100)" in made["Generation"]
    assert "above 0, at most 1" in made["Generation"]
    assert "`top_logprobs` | integer, 0 to 20 | `0`" in made["ChatRequest"]
    assert "| `max_tokens` | integer, 0 to 2^31 - 1 | `16` |" in made["CompletionRequest"]
    assert "| `prompt` |" in made["CompletionRequest"]
    assert "required" in made["CompletionRequest"]
