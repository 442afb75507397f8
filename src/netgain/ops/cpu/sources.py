"""The native library's sources: where they are, how they are compiled, which version they are.

Standard library only: the build hook needs it before any dependency is installed.
"""

import hashlib
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
# Beside its sources, in a folder that is no package: Python would take it for a module of its own.
SOURCES_NAME: Final = "native"
LIBRARY_NAME: Final = "_native.so"
# Why there is no library, in place of it; `{command}` stands for the command that builds it.
REASON_NAME: Final = "_native.txt"
BUILD_COMMAND: Final = "python -m netgain.ops.cpu.build"

# No contraction: which products are fused is written in the kernels, so that an output does not
# depend on how the compiler saw its loop.
COMMON_FLAGS: Final = (
    "-std=c++17",
    "-O3",
    "-fPIC",
    "-pthread",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fvisibility=hidden",
    "-Wno-psabi",
)
# On Linux a library may lack symbols until it is loaded; better to hear of it here.
LINK_FLAGS: Final = (
    *("-shared", "-fPIC", "-pthread"),
    *(("-Wl,-z,defs",) if sys.platform == "linux" else ()),
)
_AVX2: Final = ("-mavx2", "-mfma", "-mf16c")
_AVX512: Final = (
    *_AVX2,
    "-mavx512f",
    "-mavx512bw",
    "-mavx512dq",
    "-mavx512vl",
    "-mavx512vnni",
    "-mprefer-vector-width=512",
)
X86_FLAGS: Final[Mapping[str, tuple[str, ...]]] = {
    "avx2": _AVX2,
    "avx_vnni": (*_AVX2, "-mavxvnni"),
    "avx512_vnni": _AVX512,
    "amx": (
        *_AVX512,
        "-mavx512vbmi2",
        "-mavx512vbmi",
        "-mavx512bf16",
        "-mamx-tile",
        "-mamx-bf16",
    ),
}
ARM_FLAGS: Final[Mapping[str, tuple[str, ...]]] = {"neon": ("-march=armv8.2-a+dotprod+fp16",)}
# `isa_<name>.cpp` is compiled with these. Where the compiler does not know them, and on another
# processor, it is compiled without and then offers no kernels (its `#else` branch).
ISA_FLAGS: Final[Mapping[str, tuple[str, ...]]] = {
    "plain": (),
    **(ARM_FLAGS if platform.machine() in ("aarch64", "arm64") else X86_FLAGS),
}

# Kernels that take what they do not do better from others.
BUILT_ON: Final = {"avx_vnni": "avx2", "amx": "avx512_vnni"}


def source_version(sources: Path) -> str:
    """Identifies the sources and how they are compiled; baked into the library built from them."""
    digest = hashlib.blake2b(digest_size=8)
    digest.update(repr((COMMON_FLAGS, X86_FLAGS, ARM_FLAGS)).encode())
    for path in sorted([*sources.glob("*.h"), *sources.glob("*.cpp")]):
        content = path.read_bytes()
        digest.update(f"{path.name}:{len(content)}:".encode())
        digest.update(content)
    return digest.hexdigest()


def checkout_of(folder: Path = HERE) -> Path | None:
    """The checkout this package lies in, or None if it was copied out of one."""
    if folder.parts[-4:] != ("src", "netgain", "ops", "cpu"):
        return None
    root = folder.parents[3]
    return root if (root / "hatch_build.py").is_file() else None


def build_command(folder: Path = HERE) -> str:
    """What to type to build the library of this installation."""
    return "make native" if checkout_of(folder) else BUILD_COMMAND
