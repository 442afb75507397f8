"""Writes a report's file whole or not at all."""

import os
import secrets
from pathlib import Path

from netgain.report.errors import ReportError


def write_file(path: Path, text: str) -> None:
    """UTF-8; what stood there before stays until the new text is complete.

    Raises `ReportError` where nothing can be written.
    """
    data = text.encode("utf-8", errors="replace")
    try:
        target = path.resolve()
        if target.exists() and not target.is_file() and not target.is_dir():
            target.write_bytes(data)  # a pipe or a terminal: nothing to replace
            return
        _replace(target, data)
    except IsADirectoryError as error:
        raise ReportError(f"cannot write {path}: it is a folder; name a file") from error
    except FileNotFoundError as error:
        raise ReportError(f"cannot write {path}: its folder does not exist; make it") from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise ReportError(f"cannot write {path}: {reason}; choose another place") from error


def check_place(path: Path) -> None:
    """Raises the `ReportError` that `write_file` would, as far as can be told before."""
    if path.is_dir():
        raise ReportError(f"cannot write {path}: it is a folder; name a file")
    folder = path.resolve().parent
    if not folder.is_dir():
        raise ReportError(f"cannot write {path}: its folder does not exist; make it")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise ReportError(f"cannot write {path}: no right to write there; choose another place")


def _replace(target: Path, data: bytes) -> None:
    if target.is_dir():
        raise IsADirectoryError
    part = target.with_name(f".{target.name[:200]}.{secrets.token_hex(4)}.part")
    # Not tempfile: the finished file is to have the rights any new file has.
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
