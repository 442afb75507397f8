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
    ("arguments", "says"),
    [
        (("links", "nvswich-h100"), "nearest: nvswitch-h100"),
        (("links", "nvswitch-h100", "--devices", "12"), "do not fill machines of 8"),
        (("links", "--model", "llama-3-70b"), "--model needs --on"),
        (("links", "pcie4", "--sizes", "many"), "give bytes, such as 64MiB"),
        (("links", "pcie4", "--model", "llama-3.1-405b", "--on", "L4"), "does not fit 4 x L4"),
        (("links", "pcie4", "--model", "llama-3.1-8b", "--on", "L4", "--tp", "64"), "laid out"),
        (("spec", "--acceptance", "1.5"), "acceptance is 1.5"),
        (("spec", "--conditional", "high"), "give numbers with commas"),
        (("spec", "lama-3.1-8b"), "unknown model"),
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
