"""Short ways to ask a server for something, and to read what a stream said."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
from tests.api.serving import ServerUnderTest

COMPLETIONS = "/v1/completions"
CHAT = "/v1/chat/completions"


def post(
    server: ServerUnderTest, path: str, fields: object, headers: Mapping[str, str] | None = None
) -> httpx.Response:
    return httpx.post(f"{server.url}{path}", json=fields, headers=headers, timeout=60)


def answer(server: ServerUnderTest, path: str, **fields: object) -> dict[str, Any]:
    """The body of an answer that must be one."""
    response = post(server, path, fields)
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
    return body


def complete(server: ServerUnderTest, prompt: object, **fields: object) -> dict[str, Any]:
    """The first choice of a greedy completion that the model's own end does not end."""
    fields = {"temperature": 0, "ignore_eos": True, "max_tokens": 8, **fields}
    choice: dict[str, Any] = answer(server, COMPLETIONS, prompt=prompt, **fields)["choices"][0]
    return choice


def user(content: str) -> dict[str, str]:
    return {"role": "user", "content": content}


@dataclass
class Streamed:
    """One choice of a stream, put together again."""

    text: str = ""
    finish_reason: str | None = None
    logprobs: list[Any] = field(default_factory=list)
    prompt_logprobs: Any = None


def events(server: ServerUnderTest, path: str, fields: Mapping[str, object]) -> Iterator[Any]:
    """The data of a stream's events, all but the last, which must be [DONE]."""
    with httpx.stream(
        "POST", f"{server.url}{path}", json={**fields, "stream": True}, timeout=60
    ) as response:
        assert response.status_code == 200, response.read()
        lines = [line for line in response.iter_lines() if line]
    assert lines[-1] == "data: [DONE]"
    for line in lines[:-1]:
        yield json.loads(line.removeprefix("data: "))


def streamed(
    server: ServerUnderTest, path: str, fields: Mapping[str, object]
) -> dict[int, Streamed]:
    """A stream's choices by index."""
    choices: dict[int, Streamed] = {}
    for event in events(server, path, fields):
        for choice in event["choices"]:
            one = choices.setdefault(choice["index"], Streamed())
            one.text += choice["text"] if "text" in choice else choice["delta"].get("content", "")
            one.finish_reason = choice["finish_reason"] or one.finish_reason
            if choice["logprobs"] is not None:
                one.logprobs.append(choice["logprobs"])
            one.prompt_logprobs = choice.get("prompt_logprobs", one.prompt_logprobs)
    return choices
