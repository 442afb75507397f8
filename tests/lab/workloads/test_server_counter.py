"""Without a local tokenizer the server's own is asked; without either, nothing exact is claimed."""

import json

import pytest
from tests.lab.workloads.stub_server import answering

from netgain.errors import ModelError
from netgain.lab.workloads.choose_counter import choose_counter
from netgain.lab.workloads.server_counter import ServerCounter, TokenizeUnavailableError
from netgain.lab.workloads.token_counter import WordCounter

TOKENS = json.dumps({"count": 3, "max_model_len": 100, "tokens": [5, 6, 7]})


def test_the_server_is_asked_in_its_own_form() -> None:
    with answering({("POST", "/tokenize"): (200, TOKENS)}) as server:
        counter = ServerCounter(f"{server.url}/v1", "m")
        assert counter.text_ids("hi") == [5, 6, 7]
        counter.prompt_ids("hi")
        counter.chat_ids([{"role": "user", "content": "hi"}], add_generation_prompt=False)
        counter.close()
        asked = server.bodies[1:]
    assert asked == [
        {"model": "m", "prompt": "hi", "add_special_tokens": False},
        {"model": "m", "prompt": "hi", "add_special_tokens": True},
        {
            "model": "m",
            "messages": [{"role": "user", "content": "hi"}],
            "add_generation_prompt": False,
            "add_special_tokens": False,
        },
    ]


@pytest.mark.parametrize(
    "answer", [(404, "no"), (200, "no"), (200, '{"tokens": []}'), (200, '{"ids": [1]}')]
)
def test_a_server_without_tokenize_leaves_words(answer: tuple[int, str]) -> None:
    with answering({("POST", "/tokenize"): answer}) as server:
        with pytest.raises(TokenizeUnavailableError):
            ServerCounter(server.url)
        counter = choose_counter(None, server.url)
    assert isinstance(counter, WordCounter)
    assert not counter.exact


def test_a_server_with_tokenize_is_taken() -> None:
    with answering({("POST", "/tokenize"): (200, TOKENS)}) as server:
        assert isinstance(choose_counter(None, server.url), ServerCounter)


def test_a_named_tokenizer_that_cannot_be_had_is_an_error() -> None:
    with pytest.raises(ModelError):
        choose_counter("./no-such-model.gguf", None)
