"""Tells a trace's format from its beginning."""

from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from netgain.lab.workloads.traces.trace_file import TraceError

_LOOK_BYTES: Final = 1 << 16


class TraceKind(StrEnum):
    """The formats, by their names on the command line."""

    SHAREGPT = "sharegpt"
    MOONCAKE = "mooncake"
    AZURE = "azure"
    BURSTGPT = "burstgpt"
    OWN = "jsonl"


def kind_of_file(path: Path) -> TraceKind:
    """From the first line that is not blank. Raises `TraceError` where it is like none of them."""
    try:
        with path.open("rb") as file:
            head = file.read(_LOOK_BYTES).removeprefix(b"\xef\xbb\xbf").lstrip()
    except OSError as error:
        raise TraceError(path, None, f"cannot be read: {error.strerror}") from error
    if not head:
        raise TraceError(path, None, "is empty")
    first = head.partition(b"\n")[0].strip()
    if first.startswith(b"["):
        return TraceKind.SHAREGPT
    if first.startswith(b"{"):
        return TraceKind.MOONCAKE if _has_hash_ids(first) else TraceKind.OWN
    if b"ContextTokens" in first:
        return TraceKind.AZURE
    if b"Request tokens" in first:
        return TraceKind.BURSTGPT
    raise TraceError(
        path,
        None,
        "its beginning is like none of the formats "
        f"({', '.join(TraceKind)}): name one, as in jsonl:{path}",
    )


def _has_hash_ids(line: bytes) -> bool:
    try:
        value = msgspec.json.decode(line)
    except msgspec.DecodeError:
        return b'"hash_ids"' in line
    return isinstance(value, dict) and "hash_ids" in value
