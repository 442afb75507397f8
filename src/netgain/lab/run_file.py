"""A run's file: its header, its records as requests ended, how it ended; a line of JSON each."""

from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec

from netgain.errors import NetgainError
from netgain.lab.record import RequestRecord
from netgain.lab.run_end import RunEnd
from netgain.lab.run_header import RunHeader

_END: Final = b'{"type":"end"'


class RunFileError(NetgainError):
    """A run's file that cannot be written or read; the message names the file and the line."""


class RunWriter:
    """Writes a run's file; each record is in it, whole, once `add` returned.

    Raises `RunFileError` for a file that is there already or cannot be written.
    """

    def __init__(self, path: Path, header: RunHeader) -> None:
        self._path = path
        self._encode = msgspec.json.Encoder().encode
        try:
            # Unbuffered: a line is one write, and in the file even if the process dies next.
            self._file = path.open("xb", buffering=0)
        except FileExistsError as error:
            raise RunFileError(f"{path} exists already: choose another name") from error
        except OSError as error:
            missing = isinstance(error, FileNotFoundError)
            reason = "its folder does not exist: make it" if missing else error.strerror
            raise RunFileError(f"cannot write {path} ({reason})") from error
        self._write(self._encode(header))

    def add(self, record: RequestRecord) -> None:
        """One more record."""
        self._write(self._encode(record))

    def end(self, end: RunEnd) -> None:
        """The last line."""
        self._write(self._encode(end))

    def close(self) -> None:
        """Nothing more follows."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _write(self, line: bytes) -> None:
        data = line + b"\n"
        try:
            written = self._file.write(data)
        except OSError as error:
            raise RunFileError(f"cannot write {self._path} ({error.strerror})") from error
        if written != len(data):  # what a disk that fills up with this line says first
            raise RunFileError(f"cannot write {self._path} (no space for a whole line)")


class RunRead(msgspec.Struct, frozen=True):
    """What a run's file holds. `end`: None where the run was killed, or is still under way.

    `torn`: the last line had been cut off, and is left out. `skipped`: the numbers of other lines
    that could not be read, if that was allowed.
    """

    header: RunHeader
    records: tuple[RequestRecord, ...]
    end: RunEnd | None = None
    torn: bool = False
    skipped: tuple[int, ...] = ()


def read_run(path: Path, *, skip_broken: bool = False) -> RunRead:
    """Reads a run's file, be the run still under way.

    Raises `RunFileError`; with `skip_broken` not for records that cannot be read.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise RunFileError(f"cannot read {path} ({error.strerror})") from error
    header = _header(path, lines[0])
    decoder = msgspec.json.Decoder(RequestRecord)
    records: list[RequestRecord] = []
    skipped: list[int] = []
    end: RunEnd | None = None
    torn = False
    for number, line in enumerate(lines[1:], 2):
        if not line.strip():
            continue
        try:
            if line.startswith(_END):
                end = msgspec.json.decode(line, type=RunEnd)
            else:
                records.append(decoder.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            if number == len(lines):  # what follows the last line's end
                torn = True
            elif skip_broken:
                skipped.append(number)
            else:
                raise RunFileError(
                    f"{path}, line {number}: no request record ({error}); mend or remove the line"
                ) from error
    return RunRead(header, tuple(records), end, torn, tuple(skipped))


def _header(path: Path, line: bytes) -> RunHeader:
    try:
        return msgspec.json.decode(line, type=RunHeader)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RunFileError(f"{path}, line 1: no header of a run ({error})") from error
