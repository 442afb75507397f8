"""Asks a scripted server one request at a time, and runs loads against it."""

import asyncio
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import msgspec

from netgain.lab.conversation import Conversation, Turn
from netgain.lab.counting import CountTokens
from netgain.lab.generator import run_load
from netgain.lab.load_plan import LoadOutcome, LoadPlan, LoadProgress
from netgain.lab.record import RequestRecord
from netgain.lab.request_body import Dialogue
from netgain.lab.scripted_server.answering import Served
from netgain.lab.scripted_server.script import EventKind, Script
from netgain.lab.scripted_server.server import ScriptedServer
from netgain.lab.target import Api, Target, parse_url
from netgain.lab.transport import Asked, Intent, Transport

NOISE_S = 0.05
"""A busy machine may be this late; scripts under test are spaced wider apart."""


def target_of(url: str, **options: object) -> Target:
    return msgspec.structs.replace(Target(endpoint=parse_url(url), model="scripted"), **options)


def conversation(*texts: str, think_s: float = 0.0, max_tokens: int = 16) -> Conversation:
    turns = tuple(Turn(text=text, max_tokens=max_tokens, think_s=think_s) for text in texts)
    return Conversation(request_class="chat", turns=turns)


def ask(target: Target, asked: Conversation | None = None) -> Asked:
    """One request; its record's times are those of `time.monotonic()`."""

    async def run() -> Asked:
        transport = Transport(target, 0.0)
        dialogue = Dialogue(target, asked or conversation("hello there"))
        intent = Intent(
            index=7,
            request_class="chat",
            conversation=3,
            turn=0,
            intended_s=time.monotonic(),
            prompt_tokens=2,
            max_tokens=16,
        )
        try:
            return transport.read(await transport.ask(intent, dialogue.body(0)))
        finally:
            transport.close()

    return asyncio.run(run())


def answer_of(script: Script, **options: object) -> tuple[Asked, Served]:
    """What a script's answer looks like to the client, and what the server knows of it."""
    with ScriptedServer(script) as server:
        asked = ask(target_of(server.url, **options))
        (served,) = server.log
    return asked, served


def written(served: Served, *kinds: EventKind) -> list[float]:
    """When the server wrote events of these kinds."""
    return [event.at_s for event in served.events if event.kind in kinds]


def assert_read(read_s: float | None, written_s: float) -> None:
    """A time the client read something that the server wrote then."""
    assert read_s is not None
    # The server looks at the clock after its write: the client may be there before it.
    assert -NOISE_S < read_s - written_s < NOISE_S


class Observed:
    """Keeps what a run says."""

    def __init__(self) -> None:
        self.records: list[RequestRecord] = []
        self.shown: list[LoadProgress] = []
        self.started_unix_s = 0.0

    def started(self, started_unix_s: float) -> None:
        self.started_unix_s = started_unix_s

    def record(self, record: RequestRecord) -> None:
        self.records.append(record)

    def progress(self, progress: LoadProgress) -> None:
        self.shown.append(progress)


def load(
    plan: LoadPlan, asked: Iterable[Conversation], count_tokens: CountTokens | None = None
) -> tuple[LoadOutcome, list[RequestRecord]]:
    seen = Observed()
    outcome = run_load(plan, asked, seen, count_tokens)
    assert outcome.requests == len(seen.records)
    return outcome, sorted(seen.records, key=lambda record: record.index)


def without_end() -> Iterator[Conversation]:
    number = 0
    while True:
        yield conversation(f"prompt {number}")
        number += 1


@contextmanager
def serving(script: Script | None = None) -> Iterator[tuple[ScriptedServer, Target]]:
    with ScriptedServer(script) as server:
        yield server, target_of(server.url)


CHAT, COMPLETIONS = Api.CHAT, Api.COMPLETIONS
