"""How the orchestrator talks to one engine in another process and another environment.

One JSON object a line. Requests: `{"do": "load", ...}` answered by what was loaded, and
`{"do": "generate", "prompts": [...], "tokens": [...]}` answered by two times a sequence. An
answer is `{"ok": ...}` or `{"error": "last line of the exception"}`; after an error in `load` the
process ends. Between requests the process blocks in `read`.

Adapters run in environments without netgain, so this module takes nothing but the standard
library.
"""

import json
import os
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple, Protocol

READY_PROMPT = 16
"""Tokens of the prompt that is answered before an engine counts as ready."""


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """What every engine is told.

    `model` is a GGUF file, `checkpoint` the same weights as a fp32 Hugging Face folder.
    The KV cache has to hold `sequences` of `context_tokens` each, or one of `longest_tokens`;
    `step_tokens` is the most tokens of one step, so that prompts are prefilled whole where the
    engine can do that.
    `options` are the engine's own, from the command line.
    """

    model: str
    checkpoint: str
    threads: int
    sequences: int
    context_tokens: int
    longest_tokens: int
    step_tokens: int
    options: Mapping[str, object]

    def line(self) -> str:
        """The request as the adapter reads it."""
        return json.dumps({"do": "load"} | asdict(self))


class Times(NamedTuple):
    """One sequence: seconds from the request to its first and to its last new token."""

    first_s: float
    last_s: float


class Adapter(Protocol):
    """One engine behind the protocol."""

    def load(self, request: LoadRequest) -> dict[str, str]:
        """Gets ready; returns what is worth knowing: versions, precision, instruction sets."""
        ...

    def generate(self, prompts: Sequence[Sequence[int]], tokens: Sequence[int]) -> list[Times]:
        """Greedy, end of sequence ignored: `tokens[i]` new tokens after `prompts[i]`.

        All prompts are of one length and arrive at once. Nothing of an earlier call is reused.
        """
        ...


class WrongAnswerError(RuntimeError):
    """An engine stopped early: its time would be of less work than asked."""


def check_counts(got: Sequence[int], asked: Sequence[int]) -> None:
    """Raises `WrongAnswerError` unless every sequence has as many new tokens as were asked for."""
    if list(got) != list(asked):
        raise WrongAnswerError(f"asked for {list(asked)} new tokens, got {list(got)}")


def serve(adapter: Adapter) -> None:
    """Answers requests until standard input ends.

    What libraries print goes to standard error: standard output is for answers alone.
    """
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        loading = request.pop("do") == "load"
        try:
            answer: object
            if loading:
                about = adapter.load(LoadRequest(**request))
                adapter.generate([[100 + i for i in range(READY_PROMPT)]], [1])
                answer = about
            else:
                answer = adapter.generate(request["prompts"], request["tokens"])
        except Exception as error:
            traceback.print_exc()
            print(json.dumps({"error": last_line(error)}), file=answers)
            if loading:
                return
        else:
            print(json.dumps({"ok": answer}), file=answers)


def last_line(error: BaseException) -> str:
    """Type and message of an exception in one line."""
    said = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {said[-1].strip() if said else ''}".rstrip(": ")


def seconds_since(began_s: float) -> float:
    """Seconds of the monotonic clock since `began_s`."""
    return time.perf_counter() - began_s
