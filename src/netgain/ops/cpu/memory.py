"""Memory for packed matrices, in large pages where the system has them."""

import contextlib
import mmap
from typing import Final

import numpy as np
from numpy.typing import NDArray

_LINE_BYTES: Final = 64
_PIECE_BYTES: Final = 64 << 20


class WeightMemory:
    """Zeroed memory cut from large pieces, each matrix at a cache line. For one thread.

    A step reads every weight once. In pages of 4 KB that is 23,000 entries of the page table for
    95 MB of weights, and each costs a walk of it; where the system offers pages of 2 MB it is 46.
    Pages become resident as they are written, so what is left of a piece costs nothing.
    """

    def __init__(self) -> None:
        self._piece = np.empty(0, np.uint8)

    def take(self, size: int) -> NDArray[np.uint8]:
        """`size` bytes; they live as long as the array does, or any view of it."""
        begin = -self._piece.ctypes.data % _LINE_BYTES if self._piece.size else 0
        if begin + size > self._piece.size:
            self._piece = _piece(max(size, _PIECE_BYTES))
            begin = 0
        taken = self._piece[begin : begin + size]
        self._piece = self._piece[begin + size :]
        return taken


def _piece(size: int) -> NDArray[np.uint8]:
    memory = mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel without them: small pages serve, more slowly
            memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8)
