"""`netgain bench` as a user meets it, against scripted servers."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.report.browser import visit
from tests.tiny_served import write_tiny_served

from netgain.lab.run_file import read_run
from netgain.lab.scripted_server.script import Script
from netgain.lab.scripted_server.server import ScriptedServer

ANSWER = Script(first_s=0.05, gap_s=0.01, tokens=8)
SYNTHETIC = "synthetic:in=16,out=8"


def bench(
    state: Path,
    *arguments: str,
    expect: int | None = 0,
    before: Callable[[], None] | None = None,
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "netgain", "bench", *arguments],
        env={**os.environ, "XDG_STATE_HOME": str(state), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        preexec_fn=before,
    )
    assert expect in (None, done.returncode), done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_a_run_reports_what_was_felt_and_keeps_its_records(tmp_path: Path) -> None:
    records, page, rows = (tmp_path / name for name in ("run.jsonl", "run.html", "run.csv"))
    with ScriptedServer(ANSWER) as server:
        done = bench(
            tmp_path,
            *(server.url, "-w", SYNTHETIC, "--rate", "20", "-d", "2", "--seed", "3"),
            *("--json", "--as", "vllm", "--slo", "examples/slo.yaml"),
            *("--records", str(records), "--html", str(page), "--csv", str(rows)),
        )
    report = json.loads(done.stdout)
    figures = report["figures"]
    found = read_run(records)
    assert 0 < figures["answered"]["value"] <= len(found.records)
    assert len(rows.read_text().splitlines()) == len(found.records) + 1
    assert found.header.rate == 20.0
    ttft = next(row for row in report["tables"]["latency"]["rows"] if row["latency"] == "TTFT")
    assert 0.05 <= ttft["p50_s"] < 0.2
    assert report["tables"]["as_vllm"]["rows"]
    seen = visit(page, tmp_path)
    assert (seen.console, seen.requests) == ((), ())
    assert 'id="latency_cdf"' in seen.dom


def test_the_report_can_be_made_again_from_the_records(tmp_path: Path) -> None:
    records = tmp_path / "run.jsonl"
    with ScriptedServer(ANSWER) as server:
        first = bench(
            tmp_path,
            *(server.url, "-w", SYNTHETIC, "-c", "2", "-n", "20", "--json"),
            *("--records", str(records)),
        )
    again = bench(tmp_path, "report", str(records), "--json")
    ours, theirs = (json.loads(text) for text in (first.stdout, again.stdout))
    assert ours == theirs


def test_records_are_kept_without_being_asked_for(tmp_path: Path) -> None:
    with ScriptedServer(ANSWER) as server:
        done = bench(tmp_path, server.url, "-w", SYNTHETIC, "-c", "1", "-n", "3")
    kept = Path(done.stderr.partition("Records: ")[2].strip())
    assert kept.is_relative_to(tmp_path)
    assert len(read_run(kept).records) == 3


def started(records: Path, url: str) -> subprocess.Popen[str]:
    """A long run of which some records are in their file."""
    running = subprocess.Popen(
        [
            *(sys.executable, "-m", "netgain", "bench", url, "-w", SYNTHETIC),
            *("--rate", "20", "-d", "60", "--records", str(records)),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # As from a terminal, even where these tests run in a background that ignores Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    until = time.monotonic() + 60
    while time.monotonic() < until and not (
        records.is_file() and len(records.read_bytes().splitlines()) > 10
    ):
        time.sleep(0.05)
    return running


def test_a_server_that_dies_ends_the_run_with_what_there_was(tmp_path: Path) -> None:
    records = tmp_path / "run.jsonl"
    with ScriptedServer(ANSWER) as server:
        running = started(records, server.url)
        server.die()
        out, _ = running.communicate(timeout=60)
    assert running.returncode == 1
    assert "ended early" in out
    kept = read_run(records).records
    assert any(record.failure is None for record in kept)
    assert any(record.failure is not None for record in kept)


@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_reports_what_there_was(tmp_path: Path, told: signal.Signals) -> None:
    with ScriptedServer(ANSWER) as server:
        running = started(tmp_path / "run.jsonl", server.url)
        running.send_signal(told)
        out, _ = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "interrupted" in out


def test_a_run_whose_records_find_no_room_is_reported_all_the_same(tmp_path: Path) -> None:
    records = tmp_path / "run.jsonl"
    room = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (6000, 6000))
    with ScriptedServer(ANSWER) as server:
        done = bench(
            tmp_path,
            *(server.url, "-w", SYNTHETIC, "-c", "4", "-n", "40", "--records", str(records)),
            expect=1,
            before=room,
        )
    assert "file of records is not whole" in done.stdout
    kept = read_run(records)
    assert kept.torn
    assert 0 < len(kept.records) < 40
    answered = next(line for line in done.stdout.splitlines() if "requests in the window" in line)
    assert int(answered.split()[4]) > len(kept.records)


def test_more_clients_than_the_shell_allows_open_files_are_no_trouble(tmp_path: Path) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with ScriptedServer(ANSWER) as server:
        done = bench(
            tmp_path,
            *(server.url, "-w", SYNTHETIC, "-c", "80", "-n", "160", "--json"),
            before=partial(resource.setrlimit, resource.RLIMIT_NOFILE, (50, hard)),
        )
    figures = json.loads(done.stdout)["figures"]
    assert figures["failed"]["value"] == 0


def test_a_page_or_table_that_cannot_be_written_is_refused_before_the_run(tmp_path: Path) -> None:
    with ScriptedServer(ANSWER) as server:
        for option in ("--html", "--csv"):
            place = str(tmp_path / "missing" / "file")
            done = bench(tmp_path, server.url, "-c", "1", option, place, expect=1)
            assert "its folder does not exist" in done.stderr
        assert not server.log


def test_a_folder_for_runs_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.write_text("")
    with ScriptedServer(ANSWER) as server:
        done = bench(taken, server.url, "-w", SYNTHETIC, "-c", "1", "-n", "1", expect=1)
    assert "--records" in done.stderr


def test_a_search_says_which_rates_it_tried_within_its_bounds(tmp_path: Path) -> None:
    slo = tmp_path / "slo.yaml"
    slo.write_text("ttft: 3 s\nattainment: 90%\n")
    with ScriptedServer(Script(first_s=1.5, tokens=1)) as server:
        done = bench(
            tmp_path,
            *(server.url, "-w", "synthetic:in=8,out=1", "--find-rate", "--slo", str(slo)),
            *("-d", "2", "--lowest-rate", "30", "--highest-rate", "30", "--json"),
            expect=None,  # on a busy machine the generator may be the limit, which is an error
        )
    tables = json.loads(done.stdout)["tables"].values()
    rates = {row["rate"] for table in tables for row in table["rows"] if "rate" in row}
    assert rates == {30.0}
    assert done.stderr.startswith("30/s undecided: 1 of at least 2 runs\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("http://127.0.0.1:9", "--rate", "1"), "nobody answers"),
        (("URL", "--rate", "1", "-m", "another"), "serves no model 'another'"),
        (("URL",), "say how requests come"),
        (("URL", "--rate", "1", "-c", "2"), "exclude each other"),
        (("URL", "--rate", "-1"), "a rate of -1"),
        (("URL", "--rate", "1", "-w", "chatt"), "chat"),
        (("URL", "--rate", "1", "--arrivals", "poison"), "choose poisson"),
        (("URL", "--rate", "1", "--cache", "tepid"), "choose cold"),
        (("URL", "--rate", "1", "--as", "wrk"), "choose vllm"),
        (("URL", "--find-rate"), "give --slo"),
        (("URL", "--find-rate", "--slo", "examples/slo.yaml", "--budget", "0"), "budget above 0"),
        (("URL", "--rate", "1", "--slo", "no-such.yaml"), "no-such.yaml"),
        (("URL", "--rate", "1", "--body", "[1]"), "JSON object"),
        (("URL", "--rate", "1", "--body", '{"temperature": NaN}'), "no JSON"),
        (("URL", "--rate", "1", "--header", "X: ü"), "not ASCII"),
        (("URL", "--rate", "1", "-d", "0"), "above 0"),
        (("URL", "--rate", "1", "-d", "inf"), "above 0"),
        (("URL", "--rate", "1", "--timeout", "inf"), "above 0"),
        (("URL", "--rate", "1", "--drain", "nan"), "0 or more"),
        (("URL", "--find-rate", "--slo", "examples/slo.yaml", "-n", "9"), "leave --requests"),
        (("report", "no-such.jsonl"), "no-such.jsonl"),
    ],
)
def test_what_cannot_be_run_is_refused_with_what_to_do(
    tmp_path: Path, arguments: tuple[str, ...], says: str
) -> None:
    with ScriptedServer(ANSWER) as server:
        asked = [server.url if argument == "URL" else argument for argument in arguments]
        done = bench(tmp_path, *asked, expect=1)
    assert says in done.stderr


def test_a_broken_line_of_a_trace_is_named(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text('{"prompt": "hello", "max_tokens": 4, "start_s": 0}\n{"prompt": 7}\n', "utf-8")
    with ScriptedServer(ANSWER) as server:
        done = bench(tmp_path, server.url, "-w", f"jsonl:{trace}", expect=1)
        assert "line 2" in done.stderr
        bench(tmp_path, server.url, "-w", f"jsonl:{trace}", "--skip-bad-lines")


def test_the_cache_experiment_runs_on_servers_of_its_own(tmp_path: Path) -> None:
    model = str(write_tiny_served(tmp_path / "tiny"))
    sizes = ("--prefix", "48", "--suffix", "16", "--answer", "4", "-n", "3", "--small-pool", "1MiB")
    done = bench(tmp_path, "kv", "-m", model, *sizes, "--json")
    report = json.loads(done.stdout)
    arms = {
        row["arm"] for table in report["tables"].values() for row in table["rows"] if "arm" in row
    }
    assert {"cache off", "cache on, cold", "cache on, warm in device memory"} <= arms
    equal = [f["value"] for name, f in report["figures"].items() if "equal" in name]
    assert equal == [1.0, 1.0]
