import json
from pathlib import Path

import pytest
from benchmarks.load_tools.comparison import compare
from benchmarks.load_tools.tools import guidellm_values
from benchmarks.load_tools.traffic import SCRIPTS, Traffic, write_files


def test_metrics_that_both_have_are_compared_by_their_medians() -> None:
    theirs = [{"ttft": 100.0, "only": 1.0}, {"ttft": 300.0}, {"ttft": 110.0}]
    ours: list[dict[str, float | None]] = [
        {"ttft": 111.0, "itl": None},
        {"ttft": 90.0},
        {"ttft": 500.0},
    ]
    (row,) = compare("t", "1", theirs, ours, {}).rows
    assert (row.theirs, row.ours) == (110.0, 111.0)
    assert row.difference == pytest.approx(1 / 110)
    assert row.agrees


def test_more_than_two_per_cent_and_something_beside_nothing_do_not_agree() -> None:
    found = compare(
        "t", "1", [{"a": 100.0, "b": 0.0, "c": 0.0}], [{"a": 97.9, "b": 0.0, "c": 1.0}], {}
    )
    assert [row.agrees for row in found.rows] == [False, True, False]
    assert not found.agrees
    assert found.worst.metric == "c"


def test_what_has_another_meaning_is_left_out_by_name() -> None:
    found = compare(
        "t", "1", [{"a": 1.0, "b": 1.0}], [{"a": 1.0, "b": 9.0}], {"b": "why", "c": "-"}
    )
    assert [row.metric for row in found.rows] == ["a"]
    assert found.left_out == {"b": "why"}


def test_guidellm_latencies_are_of_completed_requests_and_rates_of_all() -> None:
    def by_status(successful: float, total: float) -> dict[str, object]:
        def summary(mean: float) -> dict[str, object]:
            percentiles = {"p50": 1.0, "p95": 2.0, "p99": 3.0}
            return {"mean": mean, "median": 1.0, "std_dev": 0.5, "percentiles": percentiles}

        return {"successful": summary(successful), "total": summary(total)}

    values = guidellm_values(
        {
            "request_totals": {"successful": 9, "errored": 1, "total": 10},
            "time_to_first_token_ms": by_status(5.0, 6.0),
            "requests_per_second": by_status(7.0, 8.0),
            "turns": None,
        }
    )
    assert values["request_totals.successful"] == 9
    assert values["time_to_first_token_ms.mean"] == 5.0
    assert values["time_to_first_token_ms.p99"] == 3.0
    assert values["requests_per_second.mean"] == 8.0


def test_every_tool_gets_the_same_prompts_each_naming_its_script(tmp_path: Path) -> None:
    traffic = Traffic(requests=7, rate=1.0)
    files = write_files(traffic, tmp_path)
    lines = [json.loads(line) for line in files.prompts.read_text().splitlines()]
    talks = json.loads(files.sharegpt.read_text())
    assert [line["prompt"] for line in lines] == [
        talk["conversations"][0]["value"] for talk in talks
    ]
    assert len(lines) == 7
    for index, line in enumerate(lines):
        name = traffic.script(index)
        assert f"[script:{name}]" in line["prompt"]
        assert line["output_tokens_count"] == SCRIPTS[name].tokens
    assert {traffic.script(index) for index in range(7)} == set(SCRIPTS)
