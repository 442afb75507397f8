"""Compiles `native/*.cpp` into `native/_native.so` with the system's C++ compiler.

Who calls it: the build hook (`hatch_build.py`, wheels and editable installs), `make native`, and
`python -m netgain.ops.cpu.build` in any installation, for a compiler that was installed later. The
hook runs before any dependency is there, so this imports the standard library only.

Environment: `CXX` the compiler (else the first of c++, g++, clang++), `CXXFLAGS` appended to every
compilation, `NETGAIN_BUILD_ISA` a comma-separated subset of `ISA_FLAGS` to compile (for a quick
build while working on one of them; the others then cannot be chosen).
"""

import argparse
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from netgain.ops.cpu.sources import (
    BUILT_ON,
    COMMON_FLAGS,
    HERE,
    ISA_FLAGS,
    LIBRARY_NAME,
    LINK_FLAGS,
    REASON_NAME,
    SOURCES_NAME,
    build_command,
    checkout_of,
    source_version,
)

COMPILERS: Final = ("c++", "g++", "clang++")
WARNINGS: Final = ("-Wall", "-Wextra", "-Werror")


@dataclass(frozen=True)
class Built:
    """A library. `without`: instruction sets whose flags the compiler does not know."""

    path: Path
    compiler: str
    without: tuple[str, ...]
    elapsed_s: float
    unit_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class NotBuilt:
    """No library; `reason` is one sentence, in which `{command}` is to be replaced."""

    reason: str
    output: str = ""


@dataclass(frozen=True)
class _Unit:
    source: Path
    flags: tuple[str, ...]


@dataclass(frozen=True)
class _Compiled:
    unit: _Unit
    path: Path
    elapsed_s: float
    returncode: int
    output: str


def find_compiler() -> tuple[str, ...] | None:
    """The compiler with its leading arguments. `CXX`, where it is set, is the only candidate."""
    chosen = shlex.split(os.environ.get("CXX", ""))
    candidates = [chosen] if chosen else [[name] for name in COMPILERS]
    for program, *arguments in candidates:
        if found := shutil.which(program):
            return (found, *arguments)
    return None


def build(folder: Path = HERE, destination: Path | None = None) -> Built | NotBuilt:
    """Compiles what is in `folder/native` into `destination`, by default where `load` looks for it.

    The units are compiled side by side, one per core. In a checkout, objects are kept in
    `build/native`, so that only what changed is compiled again. What stands in for the library
    where there is none, the reason, is written or removed beside it. A library that is there stays
    if the build fails.
    """
    sources = folder / SOURCES_NAME
    library = destination or sources / LIBRARY_NAME
    result = _build(sources, library, checkout_of(folder))
    reason = library.with_name(REASON_NAME)
    if isinstance(result, Built):
        reason.unlink(missing_ok=True)
    elif not library.exists():
        reason.write_text(result.reason + "\n")
    return result


def check(folder: Path = HERE) -> NotBuilt | None:
    """Compiles nothing, but holds every unit to the warnings: what is wrong, or None."""
    compiler = find_compiler()
    if compiler is None:
        return NotBuilt("no C++ compiler was found, so the C++ was not checked")
    units, _ = _units(compiler, folder / SOURCES_NAME)
    command = (*compiler, *COMMON_FLAGS, *WARNINGS, "-fsyntax-only")
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        runs = list(pool.map(lambda unit: _run((*command, *unit.flags, str(unit.source))), units))
    if any(run.returncode for run in runs):
        return NotBuilt("the C++ has warnings or errors", "".join(run.stdout for run in runs))
    return None


def _build(sources: Path, library: Path, checkout: Path | None) -> Built | NotBuilt:
    begin_s = time.monotonic()
    compiler = find_compiler()
    if compiler is None:
        chosen = os.environ.get("CXX")
        missing = f"CXX={chosen} was not found" if chosen else "no C++ compiler was found"
        return NotBuilt(f"{missing}; install g++ and run: {{command}}")
    units, without = _units(compiler, sources)
    with tempfile.TemporaryDirectory() as scratch:
        objects = Path(scratch) if checkout is None else checkout / "build" / "native"
        objects.mkdir(parents=True, exist_ok=True)
        compiled = _compile(compiler, units, objects, sources)
        for unit in compiled:
            if unit.returncode:
                return _failure(compiler, unit.unit.source, unit.output)
        # Linked beside its place and moved there: a process that has the old one keeps it.
        fresh = library.with_name(f"{library.name}.{os.getpid()}")
        linked = _run((*compiler, *LINK_FLAGS, *(str(c.path) for c in compiled), "-o", str(fresh)))
        if linked.returncode:
            fresh.unlink(missing_ok=True)
            return _failure(compiler, library, linked.stdout)
        fresh.replace(library)
        for old in set(objects.glob("*.o")) - {unit.path for unit in compiled}:
            old.unlink(missing_ok=True)
    return Built(
        library,
        Path(compiler[0]).name,
        tuple(without),
        time.monotonic() - begin_s,
        {unit.unit.source.name: unit.elapsed_s for unit in compiled},
    )


def _units(compiler: Sequence[str], sources: Path) -> tuple[list[_Unit], list[str]]:
    """All units, the longest to compile first, and the instruction sets the compiler lacks."""
    wanted = set(os.environ.get("NETGAIN_BUILD_ISA", ",".join(ISA_FLAGS)).split(","))
    wanted |= {BUILT_ON[isa] for isa in wanted if isa in BUILT_ON}
    chosen = [isa for isa in ISA_FLAGS if isa in wanted]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        known = list(pool.map(lambda isa: _knows(compiler, ISA_FLAGS[isa]), chosen))
    flags = {isa: ISA_FLAGS[isa] for isa, is_known in zip(chosen, known, strict=True) if is_known}
    units = [_Unit(source, flags.get(_isa(source), ())) for source in sources.glob("*.cpp")]
    units.sort(key=lambda unit: (_isa(unit.source) == "", unit.source))
    return units, [isa for isa in chosen if isa not in flags]


def _isa(source: Path) -> str:
    return source.stem.removeprefix("isa_") if source.stem.startswith("isa_") else ""


def _knows(compiler: Sequence[str], flags: Sequence[str]) -> bool:
    # -Werror: clang takes flags of another processor with a warning.
    probe = (*compiler, *flags, "-Werror", "-fsyntax-only", "-xc++", os.devnull)
    return not flags or _run(probe).returncode == 0


def _compile(
    compiler: Sequence[str], units: Iterable[_Unit], objects: Path, sources: Path
) -> list[_Compiled]:
    version = source_version(sources)
    extra = tuple(shlex.split(os.environ.get("CXXFLAGS", "")))
    shared = hashlib.blake2b(_run((*compiler, "--version")).stdout.encode())
    for header in sorted(sources.glob("*.h")):
        shared.update(header.name.encode() + header.read_bytes())

    def compile_one(unit: _Unit) -> _Compiled:
        # Only the unit that tells the version is compiled again whenever any source changes.
        tells = "NETGAIN_VERSION" in unit.source.read_text()
        define = (f'-DNETGAIN_VERSION="{version}"',) if tells else ()
        command = (*compiler, *COMMON_FLAGS, *unit.flags, *define, *extra, "-c", str(unit.source))
        key = shared.copy()
        key.update(repr(command).encode() + unit.source.read_bytes())
        target = objects / f"{unit.source.stem}-{key.hexdigest()[:16]}.o"
        if target.exists():
            return _Compiled(unit, target, 0.0, 0, "")
        begin_s = time.monotonic()
        fresh = target.with_suffix(f".{os.getpid()}")
        run = _run((*command, "-o", str(fresh)))
        if run.returncode:
            fresh.unlink(missing_ok=True)
        else:
            fresh.replace(target)
        return _Compiled(unit, target, time.monotonic() - begin_s, run.returncode, run.stdout)

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(compile_one, units))


def _failure(compiler: Sequence[str], what: Path, output: str) -> NotBuilt:
    errors = (line for line in output.splitlines() if "error" in line.lower())
    first = next(errors, "no message").replace(f"{what.parent}{os.sep}", "").strip()
    return NotBuilt(
        f"{Path(compiler[0]).name} could not make {what.name} ({first}); for all it says, run: "
        "{command}",
        output,
    )


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, "LC_ALL": "C"},
    )


def describe(result: Built | NotBuilt, command: str) -> str:
    """One line for whoever waits for the build; what the compiler said goes before it.

    `command`: what to type to build again.
    """
    if isinstance(result, NotBuilt):
        reason = result.reason.replace("{command}", command)
        return f"{result.output}netgain goes without its native CPU library: {reason}"
    lacking = f", without {', '.join(result.without)}" if result.without else ""
    return f"native CPU library compiled by {result.compiler} in {result.elapsed_s:.1f} s{lacking}"


def main() -> int:
    """The command line: builds, or checks the sources; 0 if that went well."""
    parser = argparse.ArgumentParser(
        prog="python -m netgain.ops.cpu.build", description="Builds the native CPU library."
    )
    parser.add_argument(
        "--check", action="store_true", help="only hold the C++ to the compiler's warnings"
    )
    parser.add_argument("--verbose", action="store_true", help="say how long each unit took")
    arguments = parser.parse_args()
    if arguments.check:
        wrong = check()
        sys.stdout.write(f"{wrong.output}{wrong.reason}\n" if wrong else "")
        return 1 if wrong and wrong.output else 0
    result = build()
    if arguments.verbose and isinstance(result, Built):
        for name, elapsed_s in result.unit_s.items():
            sys.stdout.write(f"  {elapsed_s:6.1f} s  {name}\n")
    sys.stdout.write(f"{describe(result, build_command())}\n")
    return 0 if isinstance(result, Built) else 1


if __name__ == "__main__":
    sys.exit(main())
