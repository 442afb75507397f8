"""A peer that cannot take part, and why."""

from pathlib import Path
from typing import Final

_TAIL_BYTES: Final = 64 << 10


class PeerError(RuntimeError):
    """The reason is one line: it goes into the table and the JSON."""


def last_words(log: Path) -> str:
    """The last line of a log that says something; empty when there is none."""
    if not log.is_file():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        lines = file.read().decode("utf-8", "replace").splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
