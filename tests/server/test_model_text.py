"""Texts too long for the model are refused in time, and long ones keep nobody waiting."""

import asyncio
import time

import pytest
from tests.tiny_served import VOCABULARY, write_tiny_served

from netgain.models.chat_template_source import load_chat_template
from netgain.models.tokenizer_source import load_tokenizer
from netgain.server.errors import ApiError
from netgain.server.messages import ChatMessage
from netgain.server.model_text import ModelText
from netgain.server.prompts import PromptLimits

LIMITS = PromptLimits(60_000, VOCABULARY)
LONG = "é1 삼" * 150_000
"""Characters enough for any context that a token of the longest spelling could fill."""


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> ModelText:
    folder = write_tiny_served(tmp_path_factory.mktemp("tiny"))
    tokenizer = load_tokenizer(folder)
    return ModelText(tokenizer, load_chat_template(folder, tokenizer))


def test_a_text_far_too_long_is_not_encoded_to_its_end(text: ModelText) -> None:
    began_s = time.process_time()
    tokens = len(text.tokenizer.encode(LONG))
    whole_s = time.process_time() - began_s
    began_s = time.process_time()
    with pytest.raises(ApiError, match=r"at least [67][0-9]{4} tokens") as caught:
        asyncio.run(text.tokenize((LONG,), LIMITS, "prompt"))
    assert time.process_time() - began_s < whole_s / 3
    assert tokens > 4 * LIMITS.max_prompt_tokens
    assert caught.value.detail.code == "context_length_exceeded"


@pytest.mark.parametrize("spelled", ["", "<|im_end|>"])
def test_a_conversation_far_too_long_is_refused_as_one(text: ModelText, spelled: str) -> None:
    messages = [ChatMessage(role="user", content=spelled + LONG)]
    rendered = text.render_chat(messages, LIMITS)
    with pytest.raises(ApiError, match="at least") as caught:
        asyncio.run(text.tokenize((rendered,), LIMITS, "messages"))
    assert caught.value.detail.param == "messages"


def test_the_first_of_several_texts_that_is_too_long_ends_the_work(text: ModelText) -> None:
    began_s = time.process_time()
    with pytest.raises(ApiError):
        asyncio.run(text.tokenize((LONG,), LIMITS, "prompt"))
    one_s = time.process_time() - began_s
    began_s = time.process_time()
    with pytest.raises(ApiError):
        asyncio.run(text.tokenize((LONG,) * 20, LIMITS, "prompt"))
    assert time.process_time() - began_s < 5 * one_s
