"""Packs rows of a checkpoint into the tiles that the native kernels read.

Dimensions: O rows (output features) and I columns (input features) of a matrix, N rows at hand.
"""

import ctypes
import enum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from netgain.ops.cpu.library import Library
from netgain.ops.stored import StoredType

_TILE_ROWS: Final = 16


class PackedFormat(enum.IntEnum):
    """How a packed matrix keeps its numbers; values as in `native/formats.h`."""

    FP32 = 0
    BF16 = 1
    FP16 = 2
    Q8_0 = 3
    Q4_0 = 4
    Q4_1 = 5


class CodeLayout(enum.IntEnum):
    """The order of a block's codes; values as in `native/formats.h`."""

    BY_QUAD = 0
    BY_OUTPUT = 1


def code_layout(library: Library) -> CodeLayout:
    """The order that the kernels in use read."""
    return CodeLayout(library.handle.ng_code_layout())


def packed_bytes(library: Library, packed_format: PackedFormat, shape: tuple[int, int]) -> int:
    """Bytes of a packed matrix of `shape` `(O, I)`."""
    count = library.handle.ng_packed_bytes
    count.restype = ctypes.c_int64
    count.argtypes = (ctypes.c_int32, ctypes.c_int64, ctypes.c_int64)
    return int(count(packed_format, *shape))


def pack_rows(
    library: Library,
    packed_format: PackedFormat,
    columns: int,
    kind: StoredType,
    data: NDArray[np.uint8],
    rows: NDArray[np.int32],
    packed: NDArray[np.uint8],
    layout: CodeLayout | None = None,
) -> None:
    """Writes stored rows into a packed matrix of `columns` columns; exact where it can be.

    `kind`: F32, F16, BF16, Q4_0, Q4_1 or Q8_0. `data`: uint8 `[N, row bytes]`. `rows`: `[N]`, the
    packed row that each becomes. `packed`: zeros, `packed_bytes` of them, from a cache line on.
    `layout`: by default that of the kernels in use. Several threads may pack rows of different
    tiles of 16 at once; the interpreter lock is free meanwhile. `native/pack.h` says how numbers
    are rounded.

    Raises `ValueError` for a kind that cannot be packed, and for arrays that do not fit together.
    """
    tile = packed_bytes(library, packed_format, (_TILE_ROWS, columns))
    if not (data.flags.c_contiguous and rows.flags.c_contiguous and packed.flags.c_contiguous):
        raise ValueError("rows to pack, their numbers and the packed matrix must be contiguous")
    if data.ndim != 2 or rows.shape != data.shape[:1]:
        raise ValueError(f"{rows.shape} row numbers for rows of shape {data.shape}")
    source_bytes = _source_row_bytes(library, kind, columns)
    if data.shape[1] != source_bytes:
        raise ValueError(
            f"{columns} columns of {kind.name} take {source_bytes} bytes, not {data.shape[1]}"
        )
    if rows.size and not 0 <= rows.min() <= rows.max() < packed.size // tile * _TILE_ROWS:
        raise ValueError(f"a row number lies outside a packed matrix of {packed.size} bytes")
    pack = library.handle.ng_pack_rows
    pack.argtypes = (
        ctypes.c_int32,
        ctypes.c_int32,
        ctypes.c_void_p,
        ctypes.c_int32,
        ctypes.c_void_p,
        ctypes.c_int64,
        ctypes.c_int64,
        ctypes.c_void_p,
    )
    pack(
        packed_format,
        code_layout(library) if layout is None else layout,
        data.ctypes.data,
        kind,
        rows.ctypes.data,
        rows.size,
        columns,
        packed.ctypes.data,
    )


def unpack_row(
    library: Library,
    packed_format: PackedFormat,
    columns: int,
    packed: NDArray[np.uint8],
    row: int,
    layout: CodeLayout | None = None,
) -> NDArray[np.float32]:
    """The numbers `[I]` that a packed row stands for; `layout` as in `pack_rows`."""
    unpack = library.handle.ng_unpack_row
    unpack.restype = None
    unpack.argtypes = (
        ctypes.c_int32,
        ctypes.c_int32,
        ctypes.c_void_p,
        ctypes.c_int64,
        ctypes.c_int64,
        ctypes.c_void_p,
    )
    values = np.empty(columns, np.float32)
    codes = code_layout(library) if layout is None else layout
    unpack(packed_format, codes, packed.ctypes.data, row, columns, values.ctypes.data)
    return values


def _source_row_bytes(library: Library, kind: StoredType, columns: int) -> int:
    count = library.handle.ng_source_row_bytes
    count.restype = ctypes.c_int64
    count.argtypes = (ctypes.c_int32, ctypes.c_int64)
    size = int(count(kind, columns))
    if size < 0:
        raise ValueError(f"rows of {columns} columns of {kind.name} cannot be packed")
    return size
