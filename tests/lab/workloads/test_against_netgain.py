"""Counts and cache states hold against a real server."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.api.serving import ServerUnderTest, serving
from tests.lab.workloads.asking import first_prompt
from tests.tiny_served import CONTEXT, write_tiny_served

from netgain.lab.conversation import Conversation
from netgain.lab.run_header import CacheState
from netgain.lab.workloads.cache_control import CacheControl
from netgain.lab.workloads.cache_state import prepare, verdict, warming
from netgain.lab.workloads.expected_reuse import prompt_tokens_of, reuse_within
from netgain.lab.workloads.local_counter import LocalCounter
from netgain.lab.workloads.prompt_writer import PromptWriter
from netgain.lab.workloads.registry import parse_workload
from netgain.lab.workloads.server_counter import ServerCounter
from netgain.lab.workloads.workload import take


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_served(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[ServerUnderTest]:
    with serving("--model", str(folder), "--served-model-name", "tiny") as running:
        yield running


def send(server: ServerUnderTest, conversation: Conversation) -> int:
    """Asks for the first turn; the server's count of its prompt."""
    turn = conversation.turns[0]
    with server.client() as client:
        answer = client.chat.completions.create(
            model="tiny",
            messages=[{"role": "user", "content": turn.text}],
            max_tokens=turn.max_tokens,
        )
    assert answer.usage is not None
    return answer.usage.prompt_tokens


def test_the_server_counts_as_the_local_tokenizer_does(
    server: ServerUnderTest, folder: Path
) -> None:
    counter = ServerCounter(server.url)
    local, asked = PromptWriter(LocalCounter.load(folder)), PromptWriter(counter)
    assert asked.framing() == local.framing()
    workload = parse_workload("synthetic:in=90..200,out=1")
    made, same = take(workload, local, 1, 3), take(workload, asked, 1, 3)
    counter.close()
    assert made == same
    for one in made:
        assert send(server, one) == one.turns[0].prompt_tokens == len(first_prompt(local, one))


def test_cold_and_warm_runs_are_told_from_what_the_server_counted(
    server: ServerUnderTest, folder: Path
) -> None:
    writer = PromptWriter(LocalCounter.load(folder))
    control = CacheControl(server.url)
    made = take(parse_workload("synthetic:in=300,out=1"), writer, 7, 4)
    own = reuse_within(made, writer.framing().lead)

    def run(state: CacheState) -> bool | None:
        before = control.counters()
        for conversation in made:
            send(server, conversation)
        after = control.counters()
        return verdict(
            state, before, after, own_reuse_tokens=own, warmed_tokens=prompt_tokens_of(made)
        ).held

    assert (control.capacity_tokens() or 0) >= CONTEXT
    prepare(CacheState.COLD, control)
    assert run(CacheState.COLD) is True
    assert run(CacheState.COLD) is False
    assert run(CacheState.WARM) is True
    prepare(CacheState.WARM, control)
    for conversation in warming(made):
        send(server, conversation)
    assert run(CacheState.WARM) is True
    prepare(CacheState.COLD, control)
    assert run(CacheState.WARM) is False
    control.close()
