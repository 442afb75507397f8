"""`netgain plan` as a user meets it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from netgain.cost.known_models import known_shape
from netgain.cost.planner.compare_plan import CompareAsk, plan_comparison
from netgain.cost.precision import kv_format, weight_format
from netgain.hardware.catalogue import shipped_catalogue
from netgain.report.terminal import report_text

ROOT = Path(__file__).parent.parent.parent
NOT_JSON = "netgain: "


def plan(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "netgain", "plan", *arguments],
        env={**os.environ, "COLUMNS": "160"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def answer(*arguments: str) -> dict[str, Any]:
    done = plan(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def test_llama_2_7b_takes_524288_bytes_per_token() -> None:
    figures = answer("memory", "llama-2-7b", "--kv-length", "4096", "--batch", "16")["figures"]
    assert figures["kv_bytes_per_token"]["value"] == 524_288
    assert figures["kv_bytes"]["value"] == 34_359_738_368
    assert figures["kv_bytes_per_token"]["basis"] == "exact"
    assert "2 x 32 layers x 32 KV heads x 128 x 2 B" in figures["kv_bytes_per_token"]["arithmetic"]


def test_what_does_not_fit_is_answered_and_ends_with_1_and_the_ways_out() -> None:
    done = plan("memory", "llama-2-7b", "--on", "L40S", "--json")
    assert done.returncode == 1
    shown = json.loads(done.stdout)
    assert shown["figures"]["shortfall_bytes"]["value"] > 0
    assert len(shown["tables"]["ways_out"]["rows"]) == 3
    assert re.search(r"short by [\d,]+ bytes\. Ways out:", done.stderr)
    assert done.stderr.count("\n  - ") == 3


def test_what_fits_ends_with_0() -> None:
    figures = answer("memory", "llama-3.1-8b", "--on", "h100_sxm", "--batch", "8")["figures"]
    assert figures["shortfall_bytes"]["value"] == 0
    assert figures["reserve_bytes"]["basis"] == "assumed"


def test_a_model_no_single_device_holds_is_told_what_would() -> None:
    done = plan("memory", "deepseek-v3", "--on", "L4")
    assert done.returncode == 1
    assert re.search(r"\d+ x L4 \(--tp", done.stderr)


def test_the_default_model_under_the_roof_of_an_l40s_makes_a_page(tmp_path: Path) -> None:
    page = tmp_path / "out.html"
    figures = answer("roofline", "default", "--on", "L40S", "--html", str(page))["figures"]
    assert round(figures["crossover_flop_per_byte"]["value"]) == 419
    assert (
        "without launch, cache or communication cost"
        in (figures["crossover_flop_per_byte"]["arithmetic"])
    )
    text = page.read_text()
    assert 'id="roofline"' in text


def test_six_devices_are_compared_on_five_axes() -> None:
    names = ["H100-SXM", "H100-NVL", "MI300X", "Gaudi3", "TPU-v6e", "Groq-LPU"]
    rows = answer("compare-hardware", *names, "--model", "llama-3.1-8b", "--price", "H100=2")
    axes = {row["device"]: row for row in rows["tables"]["axes"]["rows"]}
    assert list(axes) == names
    assert (axes["H100-SXM"]["bf16"], axes["H100-SXM"]["bf16_quoted"]) == (989e12, 1979e12)
    assert axes["MI300X"]["pair"] == 64e9
    model = {row["device"]: row for row in rows["tables"]["model"]["rows"]}
    assert model["Groq-LPU"]["devices"] > 50
    assert model["H100-SXM"]["dollars"] > 0


def test_a_comparison_says_how_sure_each_value_is() -> None:
    rows = answer("compare-hardware", "H100-NVL", "L40S")["tables"]["axes"]["rows"]
    assert [row["bf16_sure"] for row in rows] == ["memory", "read"]
    assert rows[0]["flops_sure"] == "memory"


@pytest.mark.parametrize("count", [2, 6, 8])
def test_a_comparison_is_readable_on_a_hundred_columns(count: int) -> None:
    names = ["H100-SXM", "H100-NVL", "MI300X", "Gaudi3", "TPU-v6e", "Groq-LPU", "B200", "GB300"]
    known = shipped_catalogue()
    shape = known_shape("Llama-3.1-8B")
    ask = CompareAsk(
        tuple(known.device(n) for n in names[:count]), shape, weight_format("bf16"),
        kv_format("bf16"),
    )  # fmt: skip
    text = report_text(plan_comparison(ask), width=100)
    assert max(map(len, text.splitlines())) <= 100
    lines = [line for line in text.splitlines() if "bf16 dense, TFLOP/s" in line]
    beside = [len(line.replace(" ?", "").split()) - 3 for line in lines]
    assert beside == ([4, 4] if count == 8 else [count])
    assert "aiconfigurator" not in text
    explained = report_text(plan_comparison(ask), width=100, explain=True)
    assert "aiconfigurator" in explained


@pytest.mark.parametrize(
    ("claim", "code", "word"),
    [
        ("Llama-3.3-70B FP8 on 1x H200 batch 4: 1700 tok/s", 1, "Impossible"),
        ("Llama-3.1-8B bf16 on H100 batch 8: TPOT 7.42 ms", 0, "Possible"),
    ],
)
def test_claims_are_judged(claim: str, code: int, word: str) -> None:
    done = plan("check", claim)
    assert (done.returncode, done.stderr) == (code, "")
    assert f"{word}:" in done.stdout


def test_a_claim_can_be_given_by_options() -> None:
    done = plan(
        "check", "--model", "llama-3.1-8b", "--on", "H100", "--precision", "bf16",
        "--tpot-ms", "3.5",
    )  # fmt: skip
    assert done.returncode == 1
    assert "4.48 ms" in done.stdout


def test_explain_shows_the_arithmetic() -> None:
    shown = plan("memory", "llama-2-7b", "--explain").stdout
    assert "2 x 32 layers x 32 KV heads x 128 x 2 B" in shown


def test_a_device_of_one_s_own_can_be_used(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('[[device]]\nname = "H100-SXM"\nbandwidth_gb_s = 1000\n')
    figures = answer("roofline", "llama-3.1-8b", "--on", "H100", "--hardware", str(mine))["figures"]
    assert figures["bandwidth_bytes_s"]["value"] == 1e12
    assert figures["bandwidth_bytes_s"]["source"] == "mine.toml"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("memory", "llama9"), "did you mean"),
        (("memory", "llama-2-7b", "--on", "h1000"), "did you mean H100"),
        (("memory", "llama-2-7b", "--batch", "-3"), "give 1 or more"),
        (("memory", "llama-2-7b", "--kv-length", "0"), "give 1 or more"),
        (("memory", "llama-2-7b", "--on", "H100", "--tp", "64"), "cannot be laid out"),
        (("memory", "llama-2-7b", "--on", "H100", "--tp", "9" * 30), "use --tp 32"),
        (("memory", "llama-2-7b", "--on", "x" * 3000), "Known are"),
        (("memory", "llama-2-7b", "--on", "H100", "--utilisation", "2"), "utilisation"),
        (("memory", "llama-2-7b", "--weights", "int5"), "unknown weight format"),
        (("memory", "llama-2-7b", "--kv-dtype", "odd"), "unknown KV format"),
        (("roofline", "llama-2-7b", "--on", "L4", "--batch", "1,x"), "whole numbers"),
        (("roofline", "llama-2-7b", "--on", "L4", "--batch", ","), "give lengths"),
        (("roofline", "llama-3.1-8b", "--on", "H100", "--tp", "12"), "do not fill machines of 8"),
        (("roofline", "llama-3.1-8b", "--on", "H100", "--ep", "4"), "tp x dp is 1"),
        (("roofline", "llama-3.1-70b", "--on", "L4", "--tp", "4", "--topology", "x"), "nearest"),
        (("price", "--batch", "0"), "batch is 0"),
        (("price", "--price-per-hour", "-1"), "dollars_per_device_hour is -1"),
        (("price", "--utilisation", "0"), "utilisation is 0"),
        (("chunk", "--chunks", "x"), "whole numbers"),
        (("chunk", "--itl-ms", "0"), "itl_s is 0"),
        (("advise", "--goal", "fame"), "give one of ttft"),
        (("advise", "--queue-share", "2"), "queue_share is 2"),
        (("advise", "deepseek-v3", "--on", "L4", "--devices", "2"), "does not fit 2 x L4"),
        (("compare-hardware", "H100", "--price", "H100=x"), "dollars per hour"),
        (("check", "it is fast"), "it lacks"),
        (("check", "Llama-3.1-8B on H100: -5 tok/s"), "give a number above 0"),
        (("check", "--batch", "0", "x"), "above 0"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_1(arguments: tuple[str, ...], says: str) -> None:
    done = plan(*arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("netgain: ")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_every_plan_command_has_help_with_an_example() -> None:
    for command in (
        "memory", "roofline", "compare-hardware", "check", "price", "chunk", "advise",
    ):  # fmt: skip
        shown = plan(command, "--help")
        assert shown.returncode == 0
        assert f"netgain plan {command}" in shown.stdout.split("Example")[1]


@pytest.mark.parametrize(
    "page", ["does-it-fit.md", "what-bounds-it.md", "what-does-it-cost.md", "what-to-try-first.md"]
)
def test_the_examples_of_a_page_run_as_they_stand(page: str, tmp_path: Path) -> None:
    text = (ROOT / "docs" / "plan" / page).read_text("utf-8")
    commands = re.findall(r"^    \$ (netgain .*)$", text, re.MULTILINE)
    assert commands
    for line in commands:
        expected = 1 if line.endswith("# exits with 1") else 0
        done = subprocess.run(
            ["bash", "-c", line.replace("netgain ", f"{sys.executable} -m netgain ", 1)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == expected, (line, done.stderr)
