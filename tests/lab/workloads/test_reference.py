"""The page on workloads is made from the types, and shows every workload."""

import re
from pathlib import Path

import pytest

from netgain.lab.workloads.reference import parameter_tables, rewritten
from netgain.lab.workloads.registry import SYNTHETIC, parse_workload, workload_names

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "workloads.md"


def test_the_page_is_as_the_types_are() -> None:
    text = PAGE.read_text("utf-8")
    assert text == rewritten(text), "run `make docs`"


def test_every_workload_is_on_the_page() -> None:
    shown = set(re.findall(r"<!-- workload: ([\w-]+) -->", PAGE.read_text("utf-8")))
    assert shown == set(parameter_tables())
    assert shown == set(workload_names()) - {"mix"}


def test_a_table_says_form_default_and_meaning() -> None:
    made = parameter_tables()
    assert "| `in` | distribution | `256` | tokens of the prompt" in made["synthetic"]
    assert "| `path` | path | required | the trace's file |" in made["azure"]
    assert "| `limit` | whole number | none | at most the first so many |" in made["azure"]


PLACES = ("docs/workloads.md", "src/netgain/cli/bench/run.py")
SETTINGS = rf"\b(?:{'|'.join([*SYNTHETIC, 'mix'])}):[a-z-]+=[\w=,./-]*\w"


@pytest.mark.parametrize("place", PLACES)
def test_every_workload_that_is_shown_can_be_asked_for(place: str) -> None:
    shown = re.findall(SETTINGS, (ROOT / place).read_text(encoding="utf-8"))
    assert shown
    for text in shown:
        assert parse_workload(text).description
