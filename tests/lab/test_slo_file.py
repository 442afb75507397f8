"""SLO files: what they may say, and what they are told when they may not."""

from pathlib import Path

import pytest

from netgain.errors import ConfigurationError
from netgain.lab.slo import Limit, Objective, Priority
from netgain.lab.slo_file import parse_slo, read_slo

EXAMPLE = Path(__file__).parents[2] / "examples" / "slo.yaml"


def test_the_example_answers_every_question() -> None:
    level = read_slo(EXAMPLE)
    assert level.limit(Objective.TTFT) == Limit(Objective.TTFT, 2.0, 0.9, 0.3)
    assert level.limit(Objective.TPOT) == Limit(Objective.TPOT, 0.2, None, 0.05)
    assert level.limit(Objective.ITL) == Limit(Objective.ITL, 0.5, of_tokens=0.95)
    assert level.limit(Objective.E2E) == Limit(Objective.E2E, 30.0)
    assert level.attainment == 0.9
    assert level.concurrency == 4
    assert level.matters_most is Priority.LATENCY
    assert level.peak_factor == 2.0


def test_one_line_is_enough() -> None:
    level = parse_slo("ttft: 500ms", "slo.yaml")
    assert level.limits == (Limit(Objective.TTFT, 0.5),)
    assert level.attainment == 0.95
    assert level.limit(Objective.E2E) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("300ms", 0.3), ("2 s", 2.0), ("1.5s", 1.5), ("250us", 250e-6), ("1min", 60), (".5 S", 0.5)],
)
def test_durations_carry_their_unit(text: str, seconds: float) -> None:
    assert parse_slo(f"e2e: {text}", "slo.yaml").limits[0].limit_s == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["0.99", "99%", "p99", "99 %"])
def test_shares_are_read_in_any_usual_form(text: str) -> None:
    assert parse_slo(f"ttft: 1s\nattainment: {text}", "slo.yaml").attainment == 0.99


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("ttft: 1s\ntfft: 2s", 2, "did you mean 'ttft'"),
        ("ttft:\n  limit: 1s\n  good_enogh: 1s", 3, "did you mean 'good_enough'"),
        ("ttft:\n  limit: 1s\n  of_tokens: 95%", 3, "unknown key 'of_tokens'"),
        ("zzz: 1", 1, "known keys: ttft"),
        ("ttft: 500", 1, "Give a unit: 500ms or 500s"),
        ("ttft: 5 parsecs", 1, "unknown unit 'parsecs'"),
        ("ttft: soon", 1, "cannot read the duration 'soon'"),
        ("ttft: 0s", 1, "cannot be met"),
        ("ttft: [1s]", 1, "expected `key: value` lines"),
        ("ttft: 1s\nttft: 2s", 2, "given twice"),
        ("ttft:\n  share: 90%", 2, "has no limit"),
        ("ttft:\n  limit: 1s\n  good_enough: 2s", 3, "good enough only above its limit"),
        ("ttft: 1s\nattainment: 95", 2, "not in (0, 1]"),
        ("ttft: 1s\nattainment: most", 2, "cannot read the share"),
        ("ttft: 1s\nconcurrency: 1.5", 2, "whole number"),
        ("ttft: 1s\nmatters_most: latncy", 2, "did you mean 'latency'"),
        ("ttft: 1s\npeak_factor: 0.5", 2, "1 or more"),
        ("ttft: 2s\ne2e: 1s", 2, "before its first token"),
        ("ttft: 1s\n  tpot: 2s", 2, "not YAML"),
        ("- ttft", 1, "expected `key: value` lines"),
    ],
)
def test_a_mistake_is_named_with_its_line(text: str, line: int, says: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        parse_slo(text, "slo.yaml")
    assert str(error.value).startswith(f"slo.yaml:{line}:")
    assert says in str(error.value)


@pytest.mark.parametrize("text", ["", "# nothing but a comment", "concurrency: 3"])
def test_a_file_that_limits_nothing_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"slo\.yaml"):
        parse_slo(text, "slo.yaml")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="nowhere"):
        read_slo(tmp_path / "nowhere.yaml")
