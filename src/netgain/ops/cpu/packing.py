"""Packs rows of a checkpoint into the tiles that the native kernels read.

Dimensions: O rows (output features), I columns (input features) of a matrix.
"""

import ctypes
import enum

import numpy as np
from numpy.typing import NDArray

from netgain.ops.cpu.library import Library


class WeightFormat(enum.IntEnum):
    """How a packed matrix stores its numbers; values as in `native/formats.h`."""

    FP32 = 0
    BF16 = 1
    FP16 = 2
    Q8_0 = 3
    Q4_0 = 4
    Q4_1 = 5


def allocate_packed(library: Library, format: WeightFormat, rows: int, columns: int) -> NDArray[np.uint8]:  # noqa: A002
    """A packed matrix of zeros `[O, I]`, as flat bytes that begin at a cache line."""
    count = library.handle.ng_packed_bytes
    count.restype = ctypes.c_int64
    count.argtypes = (ctypes.c_int32, ctypes.c_int64, ctypes.c_int64)
    raw = np.zeros(count(format, rows, columns) + _LINE_BYTES, np.uint8)
    begin = -raw.ctypes.data % _LINE_BYTES
    return raw[begin : len(raw) - _LINE_BYTES + begin]
