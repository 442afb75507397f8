"""Matrices of the native backend, packed into tiles of 16 output features.

Dimensions: O output features, I input features, N rows at hand.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from netgain.ops.choices import WeightFormat
from netgain.ops.cpu.library import Library
from netgain.ops.cpu.memory import WeightMemory
from netgain.ops.cpu.packing import PackedFormat, pack_rows, packed_bytes
from netgain.ops.stored import StoredRows, StoredType, to_float32
from netgain.ops.weights import LinearWeight, MatrixSpec

_TILE: Final = 16
_BLOCK: Final = 32
_KEPT: Final = {
    StoredType.F32: PackedFormat.FP32,
    StoredType.F16: PackedFormat.FP16,
    StoredType.BF16: PackedFormat.BF16,
    StoredType.Q8_0: PackedFormat.Q8_0,
    StoredType.Q4_0: PackedFormat.Q4_0,
    StoredType.Q4_1: PackedFormat.Q4_1,
}
"""Stored formats that are kept bit for bit."""
_DENSE: Final = frozenset({PackedFormat.FP32, PackedFormat.BF16, PackedFormat.FP16})


class Form(enum.IntEnum):
    """How activations are kept for a weight: as float32, or by a `Rounding` of formats.h."""

    FLOAT32 = 0
    TWELVE_BITS = 1
    PAIRS = 2


@dataclass(frozen=True, slots=True, eq=False)
class PackedWeight:
    """A `LinearWeight` in tiles; `data` begins at a cache line and must outlive its use.

    `bias_O`: float32, in packed order, whole tiles.
    """

    format: PackedFormat
    shape: tuple[int, int]
    data: NDArray[np.uint8]
    bias_O: NDArray[np.float32] | None

    @property
    def stored_bytes(self) -> int:
        """Bytes of tiles and bias."""
        return self.data.nbytes + (0 if self.bias_O is None else self.bias_O.nbytes)

    @property
    def reads(self) -> Form:
        """What it is multiplied with."""
        if self.format in _DENSE:
            return Form.FLOAT32
        return Form.TWELVE_BITS if self.format is PackedFormat.Q8_0 else Form.PAIRS


def packed(weight: LinearWeight) -> PackedWeight:
    """The weight, which must be of this backend. Raises `TypeError` otherwise."""
    if not isinstance(weight, PackedWeight):
        raise TypeError(f"the native backend has no kernel for {type(weight).__name__}")
    return weight


def packed_format(choice: WeightFormat, spec: MatrixSpec) -> PackedFormat:
    """The format a matrix is kept in.

    Four bits are not forced on the embedding, whose rows are also the head's: it stays at 8.
    """
    match choice:
        case WeightFormat.AUTO | WeightFormat.AS_STORED:
            return _as_stored(spec.stored)
        case WeightFormat.INT8:
            return PackedFormat.Q8_0
        case WeightFormat.INT4:
            if spec.embedding:
                return PackedFormat.Q8_0
            kept = _as_stored(spec.stored)
            return kept if kept is PackedFormat.Q4_0 else PackedFormat.Q4_1
        case WeightFormat.BF16:
            return PackedFormat.BF16
        case WeightFormat.FP32:
            return PackedFormat.FP32


def _as_stored(stored: Sequence[StoredType]) -> PackedFormat:
    """One format for all rows: what they share, or the narrowest that holds every one of them.

    Quantised formats without a kernel (and mixtures) go to 8 bits in blocks of 32, finer than any
    of them.
    """
    if len(stored) == 1:
        return _KEPT.get(stored[0], PackedFormat.Q8_0)
    if all(kind.block_elements > 1 for kind in stored):
        return PackedFormat.Q8_0
    return PackedFormat.FP32


def resident_bytes(library: Library, choice: WeightFormat, spec: MatrixSpec) -> int:
    """Bytes of the packed matrix and its bias."""
    rows = _packed_rows(spec)
    matrix = packed_bytes(library, packed_format(choice, spec), (rows, spec.shape[1]))
    return matrix + (4 * -(-rows // _TILE) * _TILE if spec.has_bias else 0)


def _packed_rows(spec: MatrixSpec) -> int:
    """Rows in packed order; a gated matrix has whole blocks of gate and up features."""
    rows = spec.shape[0]
    return -(-rows // 2 // _BLOCK) * 2 * _BLOCK if spec.gated else rows


def _places(spec: MatrixSpec) -> NDArray[np.int32]:
    """The packed row of each row: `[O]`. Tiles of gate and up features alternate."""
    rows = np.arange(spec.shape[0], dtype=np.int32)
    if not spec.gated:
        return rows
    up, feature = np.divmod(rows, np.int32(spec.shape[0] // 2))
    tile, lane = np.divmod(feature, np.int32(_TILE))
    places: NDArray[np.int32] = (2 * tile + up) * _TILE + lane
    return places


class PackedSink:
    """A `MatrixSink` that packs rows as they come."""

    def __init__(
        self, library: Library, memory: WeightMemory, choice: WeightFormat, spec: MatrixSpec
    ) -> None:
        self._library = library
        self._spec = spec
        self._format = packed_format(choice, spec)
        self._places = _places(spec)
        self._rows = _packed_rows(spec)
        shape = (self._rows, spec.shape[1])
        self._data = memory.take(packed_bytes(library, self._format, shape))

    def write(self, rows: NDArray[np.int32], stored: StoredRows) -> None:
        """See `MatrixSink.write`."""
        kind, data = stored.kind, stored.data
        if kind not in _KEPT:
            kind, data = StoredType.F32, to_float32(kind, data).view(np.uint8)
        pack_rows(
            self._library,
            self._format,
            self._spec.shape[1],
            kind,
            np.ascontiguousarray(data),
            self._places[rows],
            self._data,
        )

    def finish(self, bias_O: NDArray[np.float32] | None) -> PackedWeight:
        """See `MatrixSink.finish`."""
        bias = None
        if bias_O is not None:
            bias = np.zeros(-(-self._rows // _TILE) * _TILE, np.float32)
            bias[self._places] = bias_O
        return PackedWeight(self._format, self._spec.shape, self._data, bias)
