"""Finds and opens the native CPU library. No torch.

Environment: `NETGAIN_ISA` (one of `ISA_FLAGS`) overrides which instruction set is used.
"""

import ctypes
import os
from dataclasses import dataclass
from pathlib import Path

from netgain.errors import ConfigurationError
from netgain.ops.cpu.sources import (
    HERE,
    LIBRARY_NAME,
    REASON_NAME,
    SOURCES_NAME,
    build_command,
    checkout_of,
    source_version,
)


@dataclass(frozen=True)
class Library:
    """The opened library. `isa`: the instruction set in use; `supported`: all that could be."""

    handle: ctypes.CDLL
    path: Path
    isa: str
    supported: tuple[str, ...]


@dataclass(frozen=True)
class Unavailable:
    """There is no library to use; `reason` is a sentence that says why and what to do."""

    reason: str


def load(folder: Path = HERE) -> Library | Unavailable:
    """Opens the library in `folder` and chooses the instruction set.

    Raises `ConfigurationError` if `NETGAIN_ISA` names none, or one that the library or this
    processor lacks.
    """
    sources = folder / SOURCES_NAME
    path = sources / LIBRARY_NAME
    command = build_command(folder)
    if not path.exists():
        return Unavailable(_why_missing(folder).replace("{command}", command))
    try:
        handle = ctypes.CDLL(str(path))
        for name in ("ng_version", "ng_isa", "ng_supported_isas"):
            getattr(handle, name).restype = ctypes.c_char_p
        version = handle.ng_version().decode()
    except (OSError, AttributeError) as error:
        return Unavailable(f"{path} cannot be loaded ({error}); rebuild with: {command}")
    if any(sources.glob("*.cpp")) and version != source_version(sources):
        return Unavailable(
            f"the native CPU library was built from other sources; rebuild with: {command}"
        )
    return _choose(handle, path)


def _why_missing(folder: Path) -> str:
    reason = folder / SOURCES_NAME / REASON_NAME
    if reason.exists():
        when = "last built" if checkout_of(folder) else "installed"
        return f"when netgain was {when}, {reason.read_text().strip()}"
    return "the native CPU library has not been built; run: {command}"


def _choose(handle: ctypes.CDLL, path: Path) -> Library:
    supported = tuple(handle.ng_supported_isas().decode().split())
    wanted = os.environ.get("NETGAIN_ISA", "")
    if wanted and handle.ng_choose_isa(wanted.encode()) != 0:
        raise ConfigurationError(
            f"NETGAIN_ISA={wanted} is not an instruction set of this library and processor; "
            f"choose one of: {', '.join(supported)}"
        )
    return Library(handle, path, handle.ng_isa().decode(), supported)
