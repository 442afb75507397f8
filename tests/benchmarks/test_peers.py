"""The parts of `benchmarks.peers` that need no peer: turns, failures, ratios, the protocol."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from benchmarks.peers import environment
from benchmarks.peers.contest import MEMORY_ROW, READY_ROW, Contest
from benchmarks.peers.environment import Environment
from benchmarks.peers.failure import PeerError, last_words
from benchmarks.peers.http_load import completion_tokens, stream_all
from benchmarks.peers.peers import Model, Peer, all_peers, all_servers, flags
from benchmarks.peers.processor import Processor, limited
from benchmarks.peers.protocol import Times
from benchmarks.peers.results import Failure, Results, RowSummary, Unit
from benchmarks.peers.tree import ProcessTree
from benchmarks.peers.workloads import ENGINE_WORKLOADS, Decode, NotComparableError, Workload

from tests.benchmarks.steady_engine import STEP_S

BATCH = Decode("batch", 4, (3, 3, 5), ("three", "one"))


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NETGAIN_PEERS_DIR", str(tmp_path))
    return tmp_path


def steady(column: str, **options: object) -> Peer:
    return Peer(
        column,
        column,
        column,
        [BATCH],
        module="tests.benchmarks.steady_engine",
        options=options,
    )


def contest(rounds: int = 2) -> Contest:
    return Contest(Model(Path("no.gguf"), 1), {}, ("batch",), rounds)


def test_engines_take_turns_and_every_round_is_kept() -> None:
    run = contest(rounds=2)
    run.alternate([steady("netgain"), steady("other")])
    assert [(turn["peer"], turn["round"]) for turn in run.turns] == [
        ("netgain", 0),
        ("other", 0),
        ("other", 1),
        ("netgain", 1),
    ]
    assert run.results.rounds["three"]["other"] == pytest.approx([3 / STEP_S] * 2)
    assert run.results.rounds["one"]["netgain"] == pytest.approx([1 / STEP_S] * 2)
    assert run.about["other"]["precision"] == "none"
    assert not run.results.failed


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("load", "RuntimeError: no weights for this processor"),
        ("die", "SIGILL: about to go"),
        ("generate", "ValueError: too many sequences"),
        ("short", "WrongAnswerError: asked for [3, 3, 5] new tokens, got [0, 0, 0]"),
    ],
)
def test_an_engine_that_fails_is_reported_with_its_last_line_beside_those_that_work(
    fault: str, reason: str
) -> None:
    run = contest(rounds=1)
    run.alternate([steady("broken", fault=fault), steady("netgain")])
    doing = "start" if fault == "load" else "batch"
    assert run.results.failed == [Failure("broken", doing, reason)]
    lines = run.results.table(["broken", "netgain"])
    assert [(line["row"], line["broken"], line["netgain"]) for line in lines] == [
        ("three", "failed", "3000"),
        ("one", "failed", "1000"),
    ]
    assert [line["failed"] for line in run.results.json_rows()] == [["broken"], ["broken"]]


def test_an_engine_that_dies_is_not_asked_for_figures_it_did_not_earn() -> None:
    run = contest(rounds=3)
    run.alternate([steady("broken", fault="die")])
    assert run.turns == []
    assert run.results.rounds == {"three": {}, "one": {}}


def test_a_peer_that_cannot_be_installed_is_reported_with_the_reason(
    own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists = own_folder / "lists"
    lists.mkdir()
    (lists / "absent.txt").write_text(f"{own_folder}/no-such-package.whl\n")
    monkeypatch.setattr(environment, "_LISTS", lists)
    peer = Peer("absent", "absent", "absent", [BATCH], Environment("absent"), "no.module")
    run = contest()
    run.start_and_memory([peer])
    run.alternate([peer])
    assert {failure.peer for failure in run.results.failed} == {"absent"}
    assert run.results.failed[0].reason.startswith("not installed: ERROR: ")
    assert set(run.results.rounds) == {READY_ROW, MEMORY_ROW, "three", "one"}


def test_an_environment_is_made_once_and_again_when_its_list_changes(
    own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists = own_folder / "lists"
    lists.mkdir()
    (lists / "empty.txt").write_text("# nothing\n")
    monkeypatch.setattr(environment, "_LISTS", lists)
    made = Environment("empty")
    python = made.ensure()
    assert python.exists()
    (made.folder / "left").touch()
    assert made.ensure() == python
    assert (made.folder / "left").exists()
    (lists / "empty.txt").write_text("# still nothing\n")
    made.ensure()
    assert not (made.folder / "left").exists()


def test_a_fresh_start_has_its_time_and_memory_measured() -> None:
    run = contest()
    run.start_and_memory([steady("netgain")])
    (ready_s,) = run.results.rounds[READY_ROW]["netgain"]
    (memory_mb,) = run.results.rounds[MEMORY_ROW]["netgain"]
    assert 0 < ready_s < 60
    assert 1 < memory_mb < 1000


def test_stages_of_a_shrinking_batch_are_timed_from_the_end_of_the_one_before() -> None:
    times = [Times(1.0, 2.0), Times(1.0, 2.0), Times(1.0, 2.5)]
    assert BATCH.speeds(times) == {"three": pytest.approx(6.0), "one": pytest.approx(4.0)}


def test_sequences_that_decode_beside_the_prefill_of_others_are_not_compared() -> None:
    with pytest.raises(NotComparableError, match=r"0\.400 s apart"):
        BATCH.speeds([Times(0.6, 2.0), Times(1.0, 2.0), Times(1.0, 2.5)])


@pytest.mark.parametrize("workload", ENGINE_WORKLOADS, ids=lambda workload: workload.name)
def test_token_ids_are_the_same_for_everyone_and_new_in_every_round(workload: Workload) -> None:
    once = workload.prompts(0)
    assert once == workload.prompts(0)
    assert [len(prompt) for prompt in once] == [workload.prompt_tokens] * len(workload.new_tokens)
    heads = {tuple(prompt[:16]) for round_ in range(3) for prompt in workload.prompts(round_)}
    assert len(heads) == 3 * len(workload.new_tokens)


@pytest.mark.parametrize(
    ("unit", "medians", "best", "ratio"),
    [
        (Unit.SPEED, {"netgain": 150.0, "a": 100.0, "b": 50.0}, "a", 1.5),
        (Unit.SECONDS, {"netgain": 2.0, "a": 1.0, "b": 4.0}, "a", 0.5),
        (Unit.MEMORY, {"netgain": 500.0, "a": 1000.0}, "a", 2.0),
        (Unit.SPEED, {"a": 100.0}, "a", None),
        (Unit.SPEED, {"netgain": 100.0}, None, None),
    ],
)
def test_a_ratio_above_one_means_better_than_the_best_peer(
    unit: Unit, medians: dict[str, float], best: str | None, ratio: float | None
) -> None:
    summary = RowSummary.of("row", unit, medians)
    assert (summary.best_peer, summary.ratio) == (best, ratio)


def test_a_row_is_the_median_of_its_rounds_and_keeps_them_all() -> None:
    results = Results()
    for figure in (10.0, 90.0, 20.0):
        results.add("row", "netgain", figure)
    results.add("row", "a", 10.0)
    (line,) = results.json_rows()
    assert line["medians"] == {"netgain": 20.0, "a": 10.0}
    assert line["ratio"] == 2.0
    assert line["rounds"] == {"netgain": [10.0, 90.0, 20.0], "a": [10.0]}


def test_keyword_arguments_become_options_of_a_server() -> None:
    assert flags({"kv_dtype": "fp16", "max_model_len": 64, "eager": True, "cache": False}) == [
        *("--kv-dtype", "fp16", "--max-model-len", "64", "--eager", "--no-cache")
    ]


@pytest.mark.parametrize("processor", list(Processor))
def test_everyone_who_needs_an_environment_has_a_list_of_pinned_packages(
    processor: Processor,
) -> None:
    for peer in (*all_peers(processor), *all_servers(processor)):
        if peer.environment is None:
            continue
        listed = peer.environment.requirements.read_text().splitlines()
        packages = [line for line in listed if line and not line.startswith("#")]
        assert packages
        assert all("==" in package for package in packages)


def test_on_avx2_everyone_is_told_or_compiled_otherwise() -> None:
    native = {peer.name: peer for peer in all_peers(Processor.NATIVE)}
    for peer in all_peers(Processor.AVX2):
        other = native[peer.name]
        assert (peer.variables, peer.environment) != (other.variables, other.environment)
        assert peer.options.get("dtype") != "bfloat16"


def test_torch_reports_avx2_to_whoever_asks_when_told_so() -> None:
    asked = subprocess.run(
        [sys.executable, "-c", "import torch; print(torch.cpu._is_avx512_supported())"],
        env=os.environ | limited(all_peers(Processor.NATIVE)[2], Processor.AVX2).variables,
        capture_output=True,
        text=True,
        check=True,
    )
    assert asked.stdout == "False\n"


def test_a_stopped_tree_uses_no_cpu_though_it_spins() -> None:
    spinning = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        tree = ProcessTree(spinning.pid)
        tree.pause()
        assert tree.idle_cores(0.1) == 0.0
        assert tree.pss_bytes() > 0
    finally:
        spinning.kill()
        spinning.wait()


def test_the_last_words_of_a_log_are_its_last_line_that_says_something(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("first\nthe reason\n\n  \n")
    assert last_words(log) == "the reason"
    assert last_words(tmp_path / "none") == ""


EVENTS = (
    'data: {"choices": [{"text": "a"}]}\n\n'
    'data: {"choices": [], "usage": {"completion_tokens": 3}}\n\n'
    "data: [DONE]\n\n"
)


def test_a_streams_usage_is_read_from_its_last_event() -> None:
    assert completion_tokens(EVENTS) == 3
    assert completion_tokens("data: [DONE]\n\n") is None


@pytest.fixture
def completions() -> Iterator[tuple[str, list[dict[str, object]]]]:
    """A server that answers every completion with `EVENTS`; its URL and the bodies it got."""
    bodies: list[dict[str, object]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(EVENTS.encode())

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", bodies
        server.shutdown()
        thread.join()


def test_streams_carry_token_ids_and_bring_two_times_each(
    completions: tuple[str, list[dict[str, object]]],
) -> None:
    url, bodies = completions
    times = stream_all(url, "m", [[1, 2], [3, 4]], [3, 3])
    assert all(0 < time.first_s <= time.last_s for time in times)
    assert sorted(str(body["prompt"]) for body in bodies) == ["[1, 2]", "[3, 4]"]
    assert all(body["ignore_eos"] and body["temperature"] == 0 for body in bodies)


def test_a_stream_that_ends_early_is_a_failure_not_a_fast_answer(
    completions: tuple[str, list[dict[str, object]]],
) -> None:
    with pytest.raises(PeerError, match="asked for 4 new tokens, the stream's usage says 3"):
        stream_all(completions[0], "m", [[1, 2]], [4])
