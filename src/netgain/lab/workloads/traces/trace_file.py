"""Reads a trace line by line; a broken one is named with its place and its fault."""

import csv
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from netgain.errors import NetgainError
from netgain.lab.workloads.parameters import Parameterised, parameter, required

Row = TypeVar("Row")


class TraceError(NetgainError):
    """A trace that cannot be read; `line` counts from 1."""

    def __init__(self, path: Path, line: int | None, what: str) -> None:
        self.path = path
        self.line = line
        where = str(path) if line is None else f"{path}, line {line}"
        way_out = (
            "" if line is None else " (--skip-bad-lines leaves such lines out and counts them)"
        )
        super().__init__(f"{where}: {what}{way_out}")


@dataclass(frozen=True, slots=True)
class Rows(Generic[Row]):
    """What a file held. `bad` lines were left out; `first_bad` says where and why."""

    rows: tuple[Row, ...]
    bad: int = 0
    first_bad: str = ""

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out as broken, if anything."""
        if not self.bad:
            return ()
        lines = "line" if self.bad == 1 else "lines"
        return (f"{self.bad} broken {lines} left out, the first: {self.first_bad}",)


@dataclass(frozen=True)
class TraceWorkload(Parameterised):
    """Base of workloads from a file."""

    path: Path = required("path", "the trace's file")
    limit: int | None = parameter("limit", None, "at most the first so many", least=1)
    longest: int | None = parameter(
        "max-in", None, "prompts of more tokens are left out, and counted", least=1
    )
    skip_bad_lines: bool = parameter(
        "skip-bad-lines", False, "leave broken lines out, and count them"
    )

    def check(self) -> None:
        """Reads the file. Raises `TraceError` for one that is broken or holds nothing to send."""
        _ = self.notes, self.size

    @property
    def notes(self) -> tuple[str, ...]:
        """What of the file is left out."""
        return self._left_out

    @property
    def size(self) -> int | None:
        """How many it has; those that `max-in` leaves out only once counted may be among them."""
        return self._length

    @property
    @abstractmethod
    def _left_out(self) -> tuple[str, ...]: ...

    @property
    @abstractmethod
    def _length(self) -> int: ...


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Every line that is not blank, from 1. Raises `TraceError` for an unreadable file."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
                if text.strip():
                    yield number, text.strip()
    except OSError as error:
        raise TraceError(path, None, f"cannot be read: {error.strerror}") from error


def read_rows(
    path: Path,
    lines: Iterator[tuple[int, bytes]],
    parse: Callable[[str], Row],
    *,
    skip_bad_lines: bool,
) -> Rows[Row]:
    """`parse` of every line; it raises `ValueError` saying what is wrong.

    Raises `TraceError` for the first broken line, unless they are to be skipped, and for a file
    without any good one.
    """
    rows: list[Row] = []
    bad = 0
    first_bad = ""
    for number, line in lines:
        try:
            rows.append(parse(_text(line)))
        except ValueError as error:
            if not skip_bad_lines:
                raise TraceError(path, number, str(error)) from error
            bad += 1
            first_bad = first_bad or f"line {number}: {error}"
    if not rows:
        raise TraceError(path, None, f"holds no usable line ({bad} broken: {first_bad or 'empty'})")
    return Rows(tuple(rows), bad, first_bad)


def read_csv(
    path: Path,
    columns: Sequence[str],
    parse: Callable[[Mapping[str, str]], Row],
    *,
    skip_bad_lines: bool,
) -> Rows[Row]:
    """As `read_rows` of a CSV file whose heading must have `columns`; others are ignored."""
    lines = numbered_lines(path)
    first = next(lines, None)
    if first is None:
        raise TraceError(path, None, "is empty")
    number, heading = first
    try:
        names = [name.strip() for name in _cells(_text(heading))]
    except ValueError as error:
        raise TraceError(path, number, str(error)) from error
    missing = [column for column in columns if column not in names]
    if missing:
        raise TraceError(
            path,
            None,
            f"the heading (line {number}) lacks {', '.join(missing)}: it must have "
            f"{','.join(columns)}",
        )

    def parse_line(text: str) -> Row:
        cells = _cells(text)
        if len(cells) != len(names):
            raise ValueError(f"{len(cells)} fields where the heading has {len(names)}")
        return parse(dict(zip(names, cells, strict=True)))

    return read_rows(path, lines, parse_line, skip_bad_lines=skip_bad_lines)


def token_count(name: str, text: str) -> int:
    """A whole number of tokens, 0 allowed. Raises `ValueError` naming the field."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < 2**31 or number != int(number):
        raise ValueError(f"{name} is {text!r}, not a number of tokens")
    return int(number)


def _text(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 ({error.reason} at byte {error.start})") from None


def _cells(text: str) -> list[str]:
    try:
        return next(csv.reader([text], strict=True))
    except csv.Error as error:
        raise ValueError(f"not CSV: {error}") from None
