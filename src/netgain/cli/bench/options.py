"""Options that the bench commands share, and the target and tokenizer they name."""

import json
import math
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from netgain.errors import ConfigurationError

if TYPE_CHECKING:
    from netgain.lab.bench import Bench
    from netgain.lab.target import Target

Url: TypeAlias = Annotated[
    str, typer.Argument(help="The server, as http://127.0.0.1:8000; https and /v1 may be in it.")
]
Model: TypeAlias = Annotated[
    str | None, typer.Option("--model", "-m", help="Model name.", show_default="the first listed")
]
ApiName: TypeAlias = Annotated[
    str, typer.Option("--api", help="chat or completions: which interface is asked.")
]
ApiKey: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Sent as a bearer token.",
        show_default="NETGAIN_API_KEY; over https else OPENAI_API_KEY",
    ),
]
Header: TypeAlias = Annotated[
    list[str] | None, typer.Option(help="'Name: value' sent with every request; repeatable.")
]
Body: TypeAlias = Annotated[
    str | None, typer.Option(help="A JSON object whose fields go into every request's body.")
]
Timeout: TypeAlias = Annotated[float, typer.Option(help="Seconds after which a request failed.")]
TokenizerName: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--tokenizer",
        help="A model's name, GGUF file or folder, to count tokens with.",
        show_default="the server's /tokenize",
    ),
]
GivenUrl: TypeAlias = Annotated[
    str | None,
    typer.Argument(help="A running server.", show_default="netgain's own, started as needed"),
]
OwnModel: TypeAlias = Annotated[
    str, typer.Option("--model", "-m", help="What netgain's own server serves.")
]
Slo: TypeAlias = Annotated[
    Path | None, typer.Option(help="A service level file, such as examples/slo.yaml.")
]
Warmup: TypeAlias = Annotated[
    str,
    typer.Option(
        help="What is left out at the start: auto, none, seconds (5s), a share (10%) or a count."
    ),
]
Cooldown: TypeAlias = Annotated[
    str,
    typer.Option(
        help="What is left out at the end: auto, none, seconds (5s), a share (10%) or a count."
    ),
]
AsTool: TypeAlias = Annotated[
    str | None,
    typer.Option("--as", help="Add the numbers as vllm, guidellm or aiperf defines them."),
]
Csv: TypeAlias = Annotated[
    Path | None, typer.Option(help="Write one row per request to this file.")
]
Seed: TypeAlias = Annotated[int, typer.Option(help="Of prompts and arrival times.")]
AsJson: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print the report as JSON, for programs.")
]
Html: TypeAlias = Annotated[
    Path | None, typer.Option("--html", help="Write a page with charts to this file too.")
]
Plot: TypeAlias = Annotated[bool, typer.Option("--plot", help="Draw the charts in the terminal.")]


def find(
    url: str,
    *,
    model: str | None,
    api: str,
    api_key: str | None,
    headers: list[str] | None,
    body: str | None,
    timeout_s: float,
    stream: bool = True,
) -> "Target":
    """The target, after it answered. Raises `NetgainError`s that say what to do."""
    from netgain.cli.bench.live import said_if_slow
    from netgain.lab.target import Api
    from netgain.lab.target_check import find_target

    if not 0 < timeout_s < math.inf:
        raise ConfigurationError(f"--timeout {timeout_s:g}: give seconds above 0")
    try:
        chosen = Api(api)
    except ValueError:
        raise ConfigurationError(f"--api {api}: choose chat or completions") from None
    with said_if_slow(f"waiting for {url} to answer a first request"):
        return find_target(
            url,
            api=chosen,
            model=model,
            api_key=api_key,
            headers=_headers(headers or []),
            fields=_fields(body),
            stream=stream,
            timeout_s=timeout_s,
        )


def bench_of(target: "Target", tokenizer: str | None) -> "Bench":
    """What runs loads against it, with the tokenizer that counts for it."""
    from netgain.lab.bench import Bench
    from netgain.lab.workloads.choose_counter import choose_counter

    headers = dict(target.headers)
    if target.api_key:
        headers["Authorization"] = f"Bearer {target.api_key}"
    counter = choose_counter(tokenizer, target.endpoint.url, target.model, headers)
    return Bench(target, counter, command())


def command() -> str:
    """What was called, without the key."""
    words = ["netgain", *sys.argv[1:]]
    for place, word in enumerate(words):
        if word.startswith("--api-key="):
            words[place] = "--api-key=..."
        elif place and words[place - 1] == "--api-key":
            words[place] = "..."
    return shlex.join(words)


def _headers(texts: list[str]) -> dict[str, str]:
    headers = {}
    for text in texts:
        name, colon, value = text.partition(":")
        if not colon or not name.strip():
            raise ConfigurationError(f"--header {text!r}: write 'Name: value'")
        headers[name.strip()] = value.strip()
    return headers


def _fields(body: str | None) -> dict[str, object] | None:
    if body is None:
        return None
    try:
        fields = json.loads(body, parse_constant=_no_number)
    except ValueError as error:
        raise ConfigurationError(f"--body is no JSON ({error}): give an object") from None
    if not isinstance(fields, dict):
        raise ConfigurationError("--body: give a JSON object, such as '{\"temperature\": 0}'")
    return fields


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is none of its numbers")
