"""Compiles a few of the native kernels for one instruction set and calls them.

A unit is a C++ file that includes headers of `ops/cpu/native` and offers functions over buffers
(`native_units/unit.h`). It is loaded into this process, or, for a processor that this machine can
only emulate, served over a pipe; the caller sees no difference.
"""

import ctypes
import platform
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.ops.native_formats import Layout

from netgain.ops.cpu.sources import COMMON_FLAGS, HERE, ISA_FLAGS

SOURCES: Final = HERE / "native"
UNITS: Final = Path(__file__).parent / "native_units"
ARM_COMPILER: Final = "aarch64-linux-gnu-g++"
ARM_EMULATOR: Final = "qemu-aarch64-static"


class Unit(Protocol):
    """A compiled unit; `layout` is that of its quantised activations, and of weights for them."""

    layout: Layout

    def call(self, name: str, *buffers: NDArray[np.generic]) -> None:
        """Calls a function of the unit; it reads and writes the C-contiguous arrays in place."""


@dataclass(frozen=True, slots=True)
class InstructionSet:
    """Headers of its vectors and dot products; `needs`: what the processor must have."""

    name: str
    vector: str
    dot: str
    flags: tuple[str, ...]
    needs: frozenset[str] = frozenset()
    layout: Layout = Layout.PLANES

    @property
    def emulated(self) -> bool:
        """Whether this machine can only emulate it."""
        return self.name == "neon" and platform.machine() not in ("aarch64", "arm64")


def _flags(name: str) -> tuple[str, ...]:
    return ISA_FLAGS.get(name, ())


# One for each header of vectors, and the matrix unit; what other sets add to another's vectors is
# not told apart here.
INSTRUCTION_SETS: Final = (
    InstructionSet("plain", "vector_plain.h", "dot_plain.h", _flags("plain")),
    InstructionSet(
        "avx2",
        "vector_avx2.h",
        "dot_avx2.h",
        _flags("avx2"),
        frozenset({"avx2", "fma", "f16c"}),
        Layout.WORDS,
    ),
    InstructionSet(
        "avx512_vnni",
        "vector_avx512.h",
        "dot_avx512_vnni.h",
        _flags("avx512_vnni"),
        frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni"}),
    ),
    InstructionSet(
        "amx",
        "tiles_amx.h",
        "linear_amx.h",
        _flags("amx"),
        frozenset({"avx512_bf16", "avx512vbmi", "avx512_vbmi2", "amx_tile", "amx_bf16"}),
        Layout.BF16,
    ),
    InstructionSet(
        "neon",
        "vector_neon.h",
        "dot_neon.h",
        ("-march=armv8.2-a+dotprod+fp16",),
        frozenset({"asimddp"}),
    ),
)
QUANTISING: Final = tuple(isa for isa in INSTRUCTION_SETS if isa.layout is not Layout.BF16)
"""Those whose activations are whole numbers; the matrix unit's: test_native_tiles.py."""
MATRIX_UNIT: Final = next(isa for isa in INSTRUCTION_SETS if isa.layout is Layout.BF16)
# Differs from AVX2 in nothing but these.
AVX_VNNI_DOTS: Final = InstructionSet(
    "avx_vnni",
    "vector_avx2.h",
    "dot_avx_vnni.h",
    _flags("avx_vnni"),
    frozenset({"avx2", "fma", "f16c", "avx_vnni"}),
    Layout.WORDS,
)


@contextmanager
def built_unit(source: str, isa: InstructionSet, folder: Path) -> Iterator[Unit]:
    """Compiles the unit `native_units/<source>.cpp`; skips the test where it cannot run."""
    missing = isa.needs - _processor_features()
    if isa.name == "amx" and not missing and not _tiles_allowed():
        missing = frozenset({"leave to use the tiles"})
    if isa.emulated:
        compiler, emulator = shutil.which(ARM_COMPILER), shutil.which(ARM_EMULATOR)
        if compiler is None or emulator is None:
            pytest.skip(f"{isa.name}: neither this processor nor {ARM_COMPILER} and {ARM_EMULATOR}")
    elif missing:
        pytest.skip(f"{isa.name}: this processor lacks {', '.join(sorted(missing))}")
    else:
        compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
        if compiler is None:
            pytest.skip("no C++ compiler")
    command = [
        *(compiler, *COMMON_FLAGS, *isa.flags),
        *(f'-DNETGAIN_VECTOR="{isa.vector}"', f'-DNETGAIN_DOT="{isa.dot}"'),
        *(f"-I{SOURCES}", f"-I{UNITS}", str(UNITS / f"{source}.cpp")),
    ]
    target = folder / f"{source}_{isa.name}"
    if not isa.emulated:
        _compile([*command, "-shared", "-o", str(target)])
        yield _LoadedUnit(ctypes.CDLL(str(target)), isa.layout)
        return
    _compile([*command, str(UNITS / "pipe_main.cpp"), "-static", "-o", str(target)])
    unit = _PipedUnit([str(emulator), str(target)], isa.layout)
    try:
        yield unit
    finally:
        unit.close()


def _compile(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def _tiles_allowed() -> bool:
    """Asks Linux for the tiles of AMX, which a process may not touch before."""
    arch_prctl, request_permission, tile_data = 158, 0x1023, 18
    refused: int = ctypes.CDLL(None).syscall(arch_prctl, request_permission, tile_data)
    return refused == 0


def _processor_features() -> frozenset[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset()
    return next(
        (
            frozenset(line.partition(":")[2].split())
            for line in lines
            if line.lower().startswith(("flags", "features"))
        ),
        frozenset(),
    )


class _LoadedUnit:
    def __init__(self, library: ctypes.CDLL, layout: Layout) -> None:
        self.layout = layout
        self._library = library

    def call(self, name: str, *buffers: NDArray[np.generic]) -> None:
        """See `Unit.call`."""
        assert all(buffer.flags.c_contiguous for buffer in buffers)
        pointers = (ctypes.c_void_p * len(buffers))(*(buffer.ctypes.data for buffer in buffers))
        self._library[name](pointers)


class _PipedUnit:
    def __init__(self, command: list[str], layout: Layout) -> None:
        self.layout = layout
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def call(self, name: str, *buffers: NDArray[np.generic]) -> None:
        """See `Unit.call`."""
        to, answers = self._process.stdin, self._process.stdout
        assert to is not None
        assert answers is not None
        to.write(struct.pack("<I", len(name)) + name.encode() + struct.pack("<I", len(buffers)))
        for buffer in buffers:
            to.write(struct.pack("<Q", buffer.nbytes))
            to.write(buffer.tobytes())
        to.flush()
        for buffer in buffers:
            answer = answers.read(buffer.nbytes)
            assert len(answer) == buffer.nbytes, f"{name} ended the process: {self._process.wait()}"
            buffer[...] = np.frombuffer(answer, buffer.dtype).reshape(buffer.shape)

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate()
