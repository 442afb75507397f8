"""`netgain run` and `netgain chat` with the default model."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.model

PARIS = ("The capital of France is", "--temperature", "0", "--max-tokens", "16")
SMALL = ("--max-model-len", "512", "--kv-memory", "64MiB")


def netgain(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "netgain", *arguments, *SMALL],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )


def test_run_with_json_prints_everything_about_the_answer(default_gguf: Path) -> None:
    answer = json.loads(netgain("run", *PARIS, "--json").stdout)
    assert "Paris" in answer["text"]
    assert answer["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == len(answer["token_ids"]) == 16
    assert [part["name"] for part in answer["engine"]["load"]] == [
        "backend",
        "open",
        "read",
        "convert",
        "allocate",
        "warm up",
    ]
    ledger = answer["ledger"]
    assert {"queue", "prefill", "decode"} <= {stage["stage"] for stage in ledger["stages"]}
    assert 0 < ledger["ttft_s"] < ledger["e2e_s"]
    assert set(ledger) == {
        *("e2e_s", "ttft_s", "stages", "other_s"),
        *("cost_s", "interference_s", "handoffs", "net_gain"),
    }


def test_run_prints_the_text_and_one_line_of_ledger(default_gguf: Path) -> None:
    printed = netgain("run", *PARIS)
    assert "Paris" in printed.stdout
    assert "prefill" not in printed.stdout
    (line,) = printed.stderr.strip().splitlines()
    for word in ("5 prompt + 16 generated", "e2e", "ttft", "tpot", "prefill", "decode"):
        assert word in line


def test_chat_answers_line_by_line_and_keeps_the_conversation(default_gguf: Path) -> None:
    asked = "What is the capital of France?\nAnd of Italy?\n/new\nWhat is 1 + 1?\n/quit\nno\n"
    printed = netgain("chat", "--temperature", "0", "--max-tokens", "24", stdin=asked)
    assert "The capital of France is Paris." in printed.stdout
    lines = [line for line in printed.stderr.splitlines() if "generated tokens" in line]
    first, second, anew = (int(line.strip("[ ").split()[0]) for line in lines)
    assert second > first, "the second prompt holds the first question and its answer"
    assert anew < second
    assert "cached" in lines[1]
