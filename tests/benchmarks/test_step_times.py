"""What is plotted, and what counts as host work."""

from pathlib import Path

import pytest
from benchmarks.host_work import host_s
from benchmarks.step_times import Point, line, plot, points

from netgain.ops.cpu.ceilings import Ceilings
from tests.benchmarks.test_roofline import work


def rows() -> list[dict[str, object]]:
    machine = Ceilings("plain", 1, 1e9, 1e9, 1e9)
    return [
        line(point, [0.002, 0.001, 0.004], {"linear": 0.001}, work(), machine)
        for point in points(quick=True)
    ]


def test_every_batch_to_64_and_contexts_to_8192_are_measured() -> None:
    found = points(quick=False)
    assert len(found) == len(set(found))
    assert {point.batch for point in found if point.context == 1024} >= set(range(1, 65))
    for batch in (1, 16):
        contexts = {point.context for point in found if point.batch == batch}
        assert {0, 255, 256, 257, 8191} <= contexts


def test_a_line_holds_the_median_and_the_bounds_in_milliseconds() -> None:
    machine = Ceilings("plain", 1, 1e6, 1e12, 1e12)
    found = line(Point(2, 10), [0.002, 0.001, 0.004], {"linear": 0.001}, work(), machine)
    read = work().step([(10, 1), (10, 1)], 2).read_bytes
    assert found["step_ms"] == pytest.approx(2.0)
    assert found["read_bound_ms"] == pytest.approx(read / 1e3)
    assert found["fraction"] == pytest.approx(read / 1e3 / 2.0)
    assert found["phases_ms"] == {"linear": pytest.approx(1.0)}


def test_the_same_numbers_are_drawn_as_the_same_file(tmp_path: Path) -> None:
    first, second = tmp_path / "a.svg", tmp_path / "deep" / "b.svg"
    plot(rows(), "title", first)
    plot(rows(), "title", second)
    assert first.read_bytes() == second.read_bytes()
    assert "batch 16" in first.read_text()


def test_host_work_lies_between_the_steps_after_the_prefill() -> None:
    prefill, decode = (0.0, 5.0), [(9.0, 10.0), (10.25, 11.0), (11.75, 12.0), (12.25, 13.0)]
    assert host_s([prefill, *decode]) == 0.25
