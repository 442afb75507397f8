"""One run put together: what is sent before it, what is sent in it, and what is said of it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from netgain.lab.bench import Bench, RunPlan
from netgain.lab.conversation import Conversation
from netgain.lab.load_plan import ClosedLoad, LoadProgress
from netgain.lab.run_header import CacheState
from netgain.lab.scripted_server.script import Script
from netgain.lab.scripted_server.server import ScriptedServer
from netgain.lab.workloads.cache_state import warming
from netgain.lab.workloads.prompt_writer import PromptWriter
from netgain.lab.workloads.registry import parse_workload
from netgain.lab.workloads.token_counter import WordCounter
from netgain.lab.workloads.workload import take
from tests.lab.scripted import target_of

WORKLOAD = parse_workload("synthetic:in=12,out=2")


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(Script(tokens=1)) as running:
        yield running


def bench_of(server: ScriptedServer) -> Bench:
    return Bench(target_of(server.url), WordCounter(), "netgain bench")


def prompts(server: ScriptedServer) -> list[str]:
    asked = [json.loads(served.body) for served in server.log if served.body]
    return [body["messages"][-1]["content"] for body in asked if "messages" in body]


def unseen(_: LoadProgress) -> None:
    """Nobody looks."""


def other_prompts(writer: PromptWriter, seed: int) -> list[Conversation]:
    return list(warming(take(WORKLOAD, writer, seed + 1, 3)))


@pytest.mark.parametrize("state", [CacheState.WARM, CacheState.UNDECLARED])
def test_a_warm_up_of_its_own_is_sent_before_the_run_whatever_state_is_declared(
    server: ScriptedServer, state: CacheState
) -> None:
    bench = bench_of(server)
    plan = RunPlan(
        workload=WORKLOAD,
        load=ClosedLoad(1),
        duration_s=None,
        requests=2,
        cache=state,
        warm_up=other_prompts,
    )
    done = bench.run(plan, unseen)
    bench.close()
    sent = prompts(server)
    assert len(done.records) == 2
    assert len(sent) == 3 + 2
    assert len(set(sent)) == 5


def test_a_warm_run_without_one_sends_its_own_prompts_first(server: ScriptedServer) -> None:
    bench = bench_of(server)
    plan = RunPlan(
        workload=WORKLOAD,
        load=ClosedLoad(1),
        duration_s=None,
        requests=2,
        cache=CacheState.WARM,
    )
    bench.run(plan, unseen)
    bench.close()
    sent = prompts(server)
    assert sorted(sent[:2]) == sorted(sent[2:])


def test_a_doubt_about_lengths_is_said_once(server: ScriptedServer) -> None:
    bench = bench_of(server)
    plan = RunPlan(workload=WORKLOAD, load=ClosedLoad(1), duration_s=None, requests=1)
    done = bench.run(plan, unseen)
    bench.close()
    assert sum("one token a word" in note for note in done.notes) == 1


def test_recorded_prompts_say_that_a_repeat_meets_them_again(
    server: ScriptedServer, tmp_path: Path
) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text('{"prompt": "Why is the sky blue?", "max_tokens": 1}\n', "utf-8")
    bench = bench_of(server)

    def said(state: CacheState, workload: str) -> bool:
        plan = RunPlan(
            workload=parse_workload(workload),
            load=ClosedLoad(1),
            duration_s=None,
            requests=1,
            cache=state,
        )
        return any("same for every seed" in note for note in bench.run(plan, unseen).notes)

    assert said(CacheState.UNDECLARED, str(trace))
    assert not said(CacheState.COLD, str(trace))
    assert not said(CacheState.UNDECLARED, "synthetic:in=12,out=1")
    bench.close()
