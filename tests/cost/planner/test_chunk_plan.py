"""`plan chunk`: interference against overhead, by chunk size."""

from dataclasses import replace
from itertools import pairwise

import pytest

from netgain.cost.known_models import known_shape
from netgain.cost.layout import Layout
from netgain.cost.planner.chunk_plan import ChunkQuestion, plan_chunk
from netgain.cost.planner.setup import Setup
from netgain.cost.precision import kv_format, weight_format
from netgain.errors import ConfigurationError
from netgain.hardware.catalogue import shipped_catalogue
from netgain.hardware.topologies import for_device
from netgain.report.document import Cell, Report
from netgain.report.json_form import json_text

DEVICES = shipped_catalogue()


def setup(tp: int = 1) -> Setup:
    shape = known_shape("Llama-3.1-8B")
    assert shape is not None
    device = DEVICES.device("H100-SXM")
    topology = for_device(DEVICES, device, tp) if tp > 1 else None
    return Setup(shape, device, weight_format("bf16"), kv_format("bf16"), Layout(tp=tp), topology)


ASKED = ChunkQuestion(setup())


def rows(report: Report) -> list[dict[str, Cell]]:
    return [dict(row) for s in report.sections for t in s.tables for row in t.rows]


def column(report: Report, key: str) -> list[float]:
    return [float(row[key] or 0) for row in rows(report)]


def test_larger_chunks_disturb_more_and_cost_the_prompt_less() -> None:
    report = plan_chunk(ASKED)
    assert all(a < b for a, b in pairwise(column(report, "interference")))
    assert all(a > b for a, b in pairwise(column(report, "prefill")))
    assert column(report, "overhead")[-1] == 0
    assert column(report, "reread")[-1] == 0


def test_the_largest_chunk_lies_between_the_last_within_the_bound_and_the_first_beyond() -> None:
    report = plan_chunk(ASKED)
    largest = report.figure("largest_chunk_tokens").value
    assert isinstance(largest, int)
    within = [int(float(r["chunk"] or 0)) for r in rows(report) if r["within"]]
    beyond = [int(float(r["chunk"] or 0)) for r in rows(report) if not r["within"]]
    assert max(within) <= largest < min(beyond)
    assert f"Chunks of {largest} tokens" in report.verdict[0]


def test_no_chunk_helps_where_the_decodes_alone_are_too_slow() -> None:
    report = plan_chunk(replace(ASKED, itl_s=1e-3))
    assert report.figure("largest_chunk_tokens").value == 0
    assert "No chunk keeps 1 ms" in report.verdict[0]


def test_with_nobody_decoding_no_chunks_are_advised_and_no_gaps_shown() -> None:
    report = plan_chunk(replace(ASKED, batch=0))
    assert "Nobody decodes" in report.verdict[0]
    assert {"itl", "interference"}.isdisjoint(
        c.key for s in report.sections for t in s.tables for c in t.columns
    )


def test_a_generous_bound_takes_the_whole_prompt() -> None:
    report = plan_chunk(replace(ASKED, itl_s=10.0))
    assert report.figure("largest_chunk_tokens").value == ASKED.prompt_tokens
    assert "no chunks are needed" in report.verdict[0]


def test_more_devices_allow_larger_chunks_within_the_same_bound() -> None:
    one, four = (plan_chunk(replace(ASKED, setup=setup(tp))) for tp in (1, 4))
    small, large = (r.figure("largest_chunk_tokens").value for r in (one, four))
    assert isinstance(small, int)
    assert isinstance(large, int)
    assert large > 1.5 * small


def test_the_report_says_when_it_loses_and_can_be_written() -> None:
    report = plan_chunk(ASKED)
    assert any(s.heading == "When it loses" and s.text for s in report.sections)
    assert json_text(report)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"prompt_tokens": 0}, "prompt_tokens is 0"),
        ({"chunks": ()}, "no chunk sizes"),
        ({"chunks": (0,)}, "chunk is 0"),
        ({"itl_s": 0.0}, "itl_s is 0"),
        ({"batch": -1}, "batch is -1"),
    ],
)
def test_empty_questions_are_refused(wrong: dict[str, int], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        replace(ASKED, **wrong)  # type: ignore[arg-type]
