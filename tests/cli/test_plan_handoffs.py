"""`netgain plan links | spec | pd | cache | knowledge | price | chunk | advise` from outside."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from netgain.cli.main import app
from netgain.errors import NetgainError

COMMANDS = ("links", "spec", "pd", "cache", "knowledge", "price", "chunk", "advise")


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["plan", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_works_without_any_flag(command: str) -> None:
    assert "assumed" in run(command)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_prints_json_and_writes_a_page(command: str, tmp_path: Path) -> None:
    page = tmp_path / "out.html"
    assert json.loads(run(command, "--json", "--html", str(page)))
    assert "<html" in page.read_text("utf-8")


@pytest.mark.parametrize("command", COMMANDS)
def test_explaining_shows_arithmetic_with_numbers(command: str) -> None:
    explained = run(command, "--explain")
    assert len(explained) > len(run(command))
    assert "source:" in explained


def test_topologies_are_listed() -> None:
    assert "bridge-a100" in run("links", "--list")


@pytest.mark.parametrize(
    ("flags", "layout", "handoffs"),
    [
        (("--tp", "4"), "DP 2 x TP 4", {"all-reduce of partial sums (TP)"}),
        (("--pp", "2"), "DP 4 x PP 2", {"activations to the next stage (PP)"}),
        (("--dp", "2"), "DP 2", {"none: replicas exchange nothing"}),
        (("--ep", "4"), "DP 8 x EP 4", {"tokens to experts and back (EP)"}),
        (
            ("--tp", "2", "--pp", "2", "--dp", "2", "--ep", "4"),
            "DP 2 x TP 2 x PP 2 x EP 4",
            {
                "all-reduce of partial sums (TP)",
                "activations to the next stage (PP)",
                "tokens to experts and back (EP)",
            },
        ),
    ],
)
@pytest.mark.parametrize("model", [(), ("--model", "gpt-oss-20b", "--on", "H100")])
def test_each_part_of_a_layout_may_be_asked_for_alone(
    flags: tuple[str, ...], layout: str, handoffs: set[str], model: tuple[str, ...]
) -> None:
    report = json.loads(run("links", *flags, *model, "--json"))
    rows = [r for r in report["tables"]["handoffs"]["rows"] if r["layout"] == layout]
    assert {row["handoff"] for row in rows} == handoffs
    if "--dp" not in flags or len(flags) > 2:
        assert all(row["link"] == "NVLink 4" for row in rows)
    if model and len(rows) > 1:
        assert sum(row["share"] for row in rows) < 1
        noted = [r["note"] for r in report["tables"]["layouts"]["rows"] if r["layout"] == layout]
        assert any("asked for" in note for note in noted)


def test_a_layout_that_leaves_devices_idle_says_so() -> None:
    assert "DP 2 x TP 3 uses 6 of 8 devices" in run("links", "--tp", "3")


def test_a_layout_that_does_not_hold_the_model_says_so() -> None:
    shown = run(
        "links", "bridge-a100", "--model", "llama-3-70b", "--on", "A100-80-PCIe", "--dp", "4"
    )
    assert "DP 4 does not fit" in " ".join(shown.split())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("links", "nvswich-h100"), "nearest: nvswitch-h100"),
        (("links", "nvswitch-h100", "--devices", "12"), "do not fill machines of 8"),
        (("links", "--model", "llama-3-70b"), "--model needs --on"),
        (("links", "pcie4", "--sizes", "many"), "give bytes, such as 64MiB"),
        (("links", "pcie4", "--model", "llama-3.1-405b", "--on", "L4"), "does not fit 4 x L4"),
        (("links", "pcie4", "--model", "llama-3.1-405b", "--on", "L4"), "of them hold it"),
        (("links", "--tp", "16"), "takes 16 devices and nvswitch-h100 has 8"),
        (("links", "--pp", "0"), "pp is 0"),
        (("links", "--ep", "3"), "does not divide"),
        (("links", "--ep", "4", "--model", "llama-3.1-8b", "--on", "H100"), "has no experts"),
        (("links", "--pp", "-1"), "pp is -1"),
        (("links", "--sizes", ","), "give at least one"),
        (("links", "--rails", "-1"), "-1 rails"),
        (("links", "H100-SXM", "--devices", "1000000000000"), "give 1 to 1,024"),
        (("links", "pcie4", "--model", "llama-3.1-8b", "--on", "L4", "--tp", "64"), "laid out"),
        (("spec", "--acceptance", "1.5"), "acceptance is 1.5"),
        (("spec", "--conditional", "high"), "give numbers with commas"),
        (("spec", "lama-3.1-8b"), "unknown model"),
        (("spec", "x" * 3000), "unknown model"),
        (("spec", "--depth", "1000000000000"), "give 1 to 128"),
        (("spec", "--on", "H100-SMX"), "unknown device"),
        (("spec", "--tp", "64"), "cannot be laid out"),
        (("spec", "--measured-step", "fast"), "milliseconds@batch x context"),
        (("pd", "--rate", "0"), "rate_per_s is 0"),
        (("pd", "--rate", "-3"), "rate_per_s is -3"),
        (("pd", "--link", "InfinyBand"), "InfiniBand"),
        (("cache", "--tier", "disk"), "give NAME=GB/s"),
        (("cache", "--tier", "disk=0"), "disk bandwidth is 0"),
        (("cache", "--codec", "3"), "give RATIO:ENCODE:DECODE"),
        (("cache", "--hit-rate", "2"), "hit_rate is 2"),
        (("knowledge", "--rate", "0"), "--rate is 0"),
        (("knowledge", "--stable", "2"), "stable_share is 2"),
    ],
)
def test_bad_input_is_a_clear_error(arguments: tuple[str, ...], says: str) -> None:
    result = CliRunner().invoke(app, ["plan", *arguments])
    assert result.exit_code != 0
    assert isinstance(result.exception, NetgainError)
    assert says in str(result.exception)
