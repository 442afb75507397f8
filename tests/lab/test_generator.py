import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise

import psutil
import pytest

from netgain.errors import ConfigurationError, NetgainError
from netgain.lab.arrivals import Constant, poisson
from netgain.lab.conversation import Conversation, Turn
from netgain.lab.generator import run_load
from netgain.lab.load_plan import ClosedLoad, Ended, LoadPlan, LoadProgress, OpenLoad, ReplayLoad
from netgain.lab.record import ErrorKind, RequestRecord, TokenCounting
from netgain.lab.scripted_server.script import Ending, Script
from netgain.lab.scripted_server.server import ScriptedServer
from tests.lab.scripted import Observed, conversation, load, serving, target_of, without_end

QUICK = Script(first_s=0.01, gap_s=0.005, tokens=4)


def test_an_open_load_asks_at_the_arrivals_whatever_the_server_does() -> None:
    with serving(Script(headers_s=0.4, tokens=1)) as (server, target):
        plan = LoadPlan(target=target, load=OpenLoad(Constant(20.0)), duration_s=0.5)
        outcome, records = load(plan, without_end())
        assert server.most_at_once >= 7
    assert outcome.ended is Ended.COMPLETE
    assert [record.intended_s for record in records] == [number / 20 for number in range(10)]
    assert [record.index for record in records] == list(range(10))
    assert all(record.failure is None for record in records)
    assert all(record.sent_s is not None and record.sent_s >= 0 for record in records)


def test_nothing_is_sent_before_it_was_meant_to_be() -> None:
    with serving(QUICK) as (_, target):
        plan = LoadPlan(target=target, load=OpenLoad(poisson(100.0)), duration_s=0.5, seed=3)
        _, records = load(plan, without_end())
    assert len(records) > 30
    assert min((record.sent_s or 0.0) - record.intended_s for record in records) >= 0


def test_a_closed_load_keeps_exactly_its_clients_in_flight() -> None:
    with serving(QUICK) as (server, target):
        plan = LoadPlan(target=target, load=ClosedLoad(5), requests=40)
        outcome, records = load(plan, without_end())
        assert server.most_at_once == 5
    assert (outcome.requests, outcome.failed) == (40, 0)
    # At every answer but the last ones, four others are under way or about to be.
    ends = sorted(record.end_s or 0.0 for record in records)
    later = sorted(record.intended_s for record in records if record.intended_s > 0)
    assert later == pytest.approx(ends[: len(later)], abs=1e-9)
    assert len(later) == 35


def test_the_clients_of_a_closed_load_can_begin_one_by_one() -> None:
    with serving(Script(headers_s=1.0, tokens=1)) as (_, target):
        plan = LoadPlan(target=target, load=ClosedLoad(4, ramp_s=0.4), requests=4, workers=2)
        _, records = load(plan, without_end())
    assert sorted(record.intended_s for record in records) == pytest.approx([0.0, 0.1, 0.2, 0.3])


def test_a_replay_asks_at_the_times_of_the_trace_scaled() -> None:
    trace = [
        Conversation(request_class="x", turns=(Turn(text="a"),), start_s=start_s)
        for start_s in (0.0, 0.2, 0.2, 1.0)
    ]
    with serving(QUICK) as (_, target):
        plan = LoadPlan(target=target, load=ReplayLoad(0.5))
        _, records = load(plan, trace)
    assert [record.intended_s for record in records] == [0.0, 0.1, 0.1, 0.5]


def test_a_replay_needs_times() -> None:
    plan = LoadPlan(target=target_of("http://127.0.0.1:9"), load=ReplayLoad())
    with pytest.raises(ConfigurationError, match="trace"):
        run_load(plan, without_end(), Observed())


def test_later_turns_carry_the_answers_and_come_after_the_think_time() -> None:
    asked = conversation("one", "two", "three", think_s=0.1, max_tokens=2)
    with serving(Script(gap_s=0.01)) as (server, target):
        _, records = load(LoadPlan(target=target, load=ClosedLoad(1)), [asked])
        bodies = [json.loads(served.body) for served in server.log]
    assert [(record.conversation, record.turn) for record in records] == [(0, 0), (0, 1), (0, 2)]
    assert bodies[2]["messages"] == [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": " a a"},
        {"role": "user", "content": "two"},
        {"role": "assistant", "content": " a a"},
        {"role": "user", "content": "three"},
    ]
    for before, after in pairwise(records):
        assert before.end_s is not None
        assert after.intended_s == pytest.approx(before.end_s + 0.1, abs=1e-6)


def test_a_failed_turn_ends_its_conversation_and_no_other() -> None:
    asked = [conversation("[script:bad]", "never asked"), conversation("[script:good]", "too")]
    scripts = {"good": Script(tokens=1), "bad": Script(status=500)}
    with ScriptedServer(scripts) as server:
        plan = LoadPlan(target=target_of(server.url), load=ClosedLoad(1))
        outcome, records = load(plan, asked)
    assert [record.index for record in records] == [0, 2, 3]
    assert (outcome.requests, outcome.failed) == (3, 1)
    assert outcome.ended is Ended.COMPLETE


def test_the_last_conversation_is_cut_to_the_number_of_requests() -> None:
    with serving(Script(tokens=1)) as (_, target):
        plan = LoadPlan(target=target, load=ClosedLoad(2), requests=5)
        _, records = load(plan, [conversation("a", "b", "c")] * 4)
    assert [(record.conversation, record.turn) for record in records] == [
        (0, 0),
        (0, 1),
        (0, 2),
        (1, 0),
        (1, 1),
    ]


def test_what_is_under_way_after_the_drain_is_cancelled_and_recorded() -> None:
    with serving(Script(tokens=2, ending=Ending.STALL)) as (_, target):
        plan = LoadPlan(target=target, load=OpenLoad(Constant(10)), duration_s=0.5, drain_s=0.2)
        outcome, records = load(plan, without_end())
    assert outcome.ended is Ended.COMPLETE
    assert len(records) == 5
    for record in records:
        assert record.failure is not None
        assert record.failure.kind is ErrorKind.CANCELLED
        assert len(record.events) == 2
        assert record.end_s == pytest.approx(0.7, abs=0.1)


def test_several_workers_share_the_load_and_no_request_is_lost() -> None:
    with serving(QUICK) as (_, target):
        plan = LoadPlan(target=target, load=OpenLoad(poisson(150.0)), duration_s=1.0, workers=3)
        outcome, records = load(plan, without_end())
    assert outcome.workers == 3
    assert [record.index for record in records] == list(range(len(records)))
    assert [r.intended_s for r in records] == sorted(r.intended_s for r in records)


def test_a_server_that_dies_ends_the_run_early_with_a_record_of_every_request() -> None:
    seen = Observed()
    with ScriptedServer(Script(first_s=0.05, gap_s=0.05, tokens=10)) as server:
        plan = LoadPlan(
            target=target_of(server.url), load=OpenLoad(Constant(40.0)), duration_s=60.0
        )

        def kill_after_ten(record: RequestRecord) -> None:
            seen.records.append(record)
            if len(seen.records) == 10:
                server.die()

        observer = Observed()
        observer.record = kill_after_ten  # type: ignore[method-assign]
        outcome = run_load(plan, without_end(), observer)
    assert outcome.ended is Ended.SERVER_GONE
    assert "20 requests in a row could not connect" in outcome.reason
    assert outcome.length_s < 10
    kinds = {record.failure.kind for record in seen.records if record.failure is not None}
    assert {ErrorKind.CONNECT, ErrorKind.DISCONNECTED} <= kinds
    assert sorted(record.index for record in seen.records) == list(range(len(seen.records)))


def test_a_workload_that_breaks_off_keeps_what_was_asked_before() -> None:
    def broken() -> Iterator[Conversation]:
        for _ in range(70):  # more than are taken in advance
            yield conversation("fine")
        raise NetgainError("trace.jsonl, line 71: no JSON")

    with serving(Script(tokens=1, headers_s=0.02)) as (_, target):
        outcome, records = load(LoadPlan(target=target, load=ClosedLoad(2)), broken())
    assert outcome.ended is Ended.WORKLOAD_FAILED
    assert outcome.reason == "trace.jsonl, line 71: no JSON"
    assert records


INTERRUPTED = """
import sys
from tests.lab.scripted import Observed, target_of, without_end
from netgain.lab.arrivals import Constant
from netgain.lab.generator import run_load
from netgain.lab.load_plan import LoadPlan, OpenLoad
seen = Observed()
seen.record = lambda record: (seen.records.append(record), print(record.index, flush=True))
plan = LoadPlan(target=target_of(sys.argv[1]), load=OpenLoad(Constant(50.0)), duration_s=60.0)
outcome = run_load(plan, without_end(), seen)
print("ended", outcome.ended.value, outcome.requests, len(seen.records))
"""


def test_ctrl_c_ends_a_run_and_keeps_its_records() -> None:
    with serving(Script(tokens=4, gap_s=0.05)) as (server, _):
        run = subprocess.Popen(
            [sys.executable, "-c", INTERRUPTED, server.url],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            # As from a terminal, even where these tests run in a background that ignores Ctrl-C.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        assert run.stdout is not None
        assert run.stdout.readline()
        os.killpg(run.pid, signal.SIGINT)  # as a terminal does: to all processes
        said = run.stdout.read().splitlines()
        assert run.wait() == 0
        run.stdout.close()
    ended, why, requests, kept = said[-1].split()
    assert (ended, why) == ("ended", "interrupted")
    assert requests == kept
    assert int(requests) >= 1


def test_a_generator_that_is_stopped_for_a_while_says_that_it_was_late() -> None:
    with serving(QUICK) as (_, target):
        plan = LoadPlan(target=target, load=OpenLoad(Constant(50.0)), duration_s=1.0)
        outcome, records = load(plan, without_end())
        assert outcome.requests == len(records) == 50

        seen = StopsWorkers(0.4)
        run_load(plan, without_end(), seen)
    assert max((r.sent_s or 0.0) - r.intended_s for r in seen.records) > 0.2


class StopsWorkers(Observed):
    """Halts the processes that make the load, for a while, at the first record."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds
        self._halted: list[psutil.Process] = []
        self._until_s = 0.0

    def record(self, record: RequestRecord) -> None:
        if not self.records:
            self._halted = psutil.Process().children()
            self._until_s = (record.end_s or 0.0) + self._seconds
            for worker in self._halted:
                worker.suspend()
        super().record(record)

    def progress(self, progress: LoadProgress) -> None:
        if self._halted and progress.elapsed_s >= self._until_s:
            for worker in self._halted:
                worker.resume()
            self._halted = []


def test_tokens_are_counted_by_the_given_tokenizer_where_the_server_says_nothing() -> None:
    script = Script(tokens=6, tokens_per_event=3, gap_s=0.01)
    with serving(script) as (_, target):
        plan = LoadPlan(target=target, load=ClosedLoad(1), requests=2)
        _, records = load(plan, without_end(), lambda text: len(text.split()))
    for record in records:
        assert record.counting is TokenCounting.TOKENIZER
        assert [event.tokens for event in record.events] == [3, 3]
        assert record.output_tokens == record.tokenizer_tokens == 6


def test_texts_are_kept_if_asked_for() -> None:
    with serving(Script(tokens=2)) as (_, target):
        plan = LoadPlan(target=target, load=ClosedLoad(1), requests=1)
        assert load(plan, without_end())[1][0].text is None
        kept = LoadPlan(target=target, load=ClosedLoad(1), requests=1, keep_text=True)
        assert load(kept, without_end())[1][0].text == " a a"


def test_cpu_time_and_length_are_reported() -> None:
    with serving(QUICK) as (_, target):
        plan = LoadPlan(target=target, load=ClosedLoad(2), requests=20)
        outcome, records = load(plan, without_end())
    assert 0 < outcome.leading_cpu_s < outcome.cpu_s < 10
    assert outcome.length_s == max(record.end_s or 0.0 for record in records)
