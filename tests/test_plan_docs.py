"""The commands on the page about handoffs run as they stand."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from netgain.cli.main import app

PAGE = Path(__file__).parent.parent / "docs" / "plan" / "what-does-the-handoff-cost.md"
COMMANDS = re.findall(r"^    \$ netgain (.*)$", PAGE.read_text("utf-8"), re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_about_handoffs_runs_as_it_stands(command: str) -> None:
    result = CliRunner().invoke(app, shlex.split(command))
    assert result.exit_code == 0, result.output
    assert result.output.strip()


def test_the_page_shows_every_command_of_its_subject() -> None:
    shown = {command.split()[1] for command in COMMANDS}
    assert shown == {"links", "spec", "pd", "cache", "knowledge"}
