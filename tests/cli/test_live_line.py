"""The line that says how a run stands."""

import io

import pytest

from netgain.cli.bench.live import LiveLine
from netgain.lab.load_plan import LoadProgress
from netgain.lab.record import ErrorKind


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


PROGRESS = LoadProgress(
    elapsed_s=12.0,
    duration_s=30.0,
    sent=48,
    in_flight=3,
    answered=44,
    output_tokens=2400,
    mean_lag_s=0.0002,
    errors={ErrorKind.TIMEOUT: 1, ErrorKind.SERVER: 0},
)


def shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, columns: int) -> str:
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("COLUMNS", str(columns))
    with LiveLine("4/s") as line:
        line.show(PROGRESS)
        return stream.getvalue()


def test_it_says_time_requests_tokens_lag_and_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, Terminal(), 200)
    assert text == (
        "\r4/s  12 of 30 s  48 sent  3 under way  44 answered  200 tok/s  lag 200 µs  1 timeout"
    )


def test_it_never_fills_the_terminals_line(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(shown(monkeypatch, Terminal(), 40).removeprefix("\r")) == 39


def test_it_leaves_an_empty_line_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    before = len(shown(monkeypatch, terminal, 200))
    assert terminal.getvalue()[before:].strip() == ""
    assert terminal.getvalue().endswith("\r")


def test_where_nobody_watches_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, io.StringIO(), 200) == ""
