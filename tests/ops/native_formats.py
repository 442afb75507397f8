"""What formats.h lays down, in numpy.

Dimensions: N rows, I columns, B blocks of 32 columns, O rows of a table.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

FP32, BF16, FP16, Q8_0, Q4_0, Q4_1 = range(6)
TILE: Final = 16
BLOCK: Final = 32
SCALED: Final = 2
"""Blocks of an activation that share a scale."""
ROW_GROUP: Final = 16
Scalar = TypeVar("Scalar", bound=np.generic)

WORD_ORDER: Final = np.array([0, 2, 1, 3]) + 4 * np.arange(BLOCK // 4)[:, None]
"""Where the words of a block stand in it."""


class Rounding(Enum):
    """Of quantised activations, by the bits of the weights they meet."""

    TWELVE_BITS = 1
    PAIRS = 2

    @staticmethod
    def suiting(weight_format: int) -> "Rounding":
        return Rounding.TWELVE_BITS if weight_format == Q8_0 else Rounding.PAIRS

    @property
    def largest(self) -> int:
        return 2039 if self is Rounding.TWELVE_BITS else 7900

    @property
    def most_off(self) -> float:
        """How far a number is from what it is rounded to, and what a scale's own rounding adds."""
        return 0.501 if self is Rounding.TWELVE_BITS else 5.01

    def nearest(self, scaled: NDArray[np.float32]) -> NDArray[np.int32]:
        """Whole numbers for numbers [..., 32] of at most `largest`."""
        if self is Rounding.TWELVE_BITS:
            return np.rint(scaled).astype(np.int32)
        # Coordinates by (1, 7) and (9, -1).
        a, b = halves_of_pairs(scaled)
        s = np.rint((a + b * np.float32(9)) * np.float32(1 / 64)).astype(np.int32)
        t = np.rint((a * np.float32(7) - b) * np.float32(1 / 64)).astype(np.int32)
        return joined_pairs(s + 9 * t, 7 * s - t)


def halves_of_pairs(block: NDArray[Scalar]) -> tuple[NDArray[Scalar], NDArray[Scalar]]:
    """Of numbers [..., 32] those whose 4-bit codes are low in a byte, and those above them."""
    quads = block.reshape(*block.shape[:-1], 4, 2, 4)
    shape = *block.shape[:-1], BLOCK // 2
    return quads[..., 0, :].reshape(shape), quads[..., 1, :].reshape(shape)


def joined_pairs(first: NDArray[Scalar], second: NDArray[Scalar]) -> NDArray[Scalar]:
    """`halves_of_pairs`, the other way round."""
    quads = [half.reshape(*half.shape[:-1], 4, 1, 4) for half in (first, second)]
    return np.concatenate(quads, axis=-2).reshape(*first.shape[:-1], BLOCK)


class Layout(Enum):
    """Of quantised activations; `BF16`: for a matrix unit, which takes them unquantised."""

    PLANES = "planes"
    WORDS = "words"
    BF16 = "bf16"

    def stored(self, whole: NDArray[np.int32], rounding: Rounding) -> NDArray[np.int8]:
        """Numbers [..., 32] as bytes [..., 64]."""
        if rounding is Rounding.PAIRS:
            first, second = halves_of_pairs(whole)
            shared = first - 64 * np.rint(first / 64).astype(np.int32)
            high = joined_pairs(first - shared, second - 7 * shared)
            assert not (high % 64).any(), "only points of the lattice can be stored"
            parts = high // 64, shared, np.full_like(shared, 99)
            return np.concatenate(parts, axis=-1).astype(np.int8)
        if self is Layout.WORDS:
            words = whole[..., WORD_ORDER.reshape(-1)].astype(np.int16, order="C")
            return words.view(np.int8)
        high = np.rint(whole / 16).astype(np.int32)
        return np.concatenate([high, whole - 16 * high], axis=-1).astype(np.int8)

    def read(self, stored: NDArray[np.int8], rounding: Rounding) -> NDArray[np.int32]:
        """Bytes [..., 64] as numbers [..., 32]."""
        if rounding is Rounding.PAIRS:
            high = 64 * stored[..., :BLOCK].astype(np.int32)
            shared = stored[..., BLOCK : BLOCK + BLOCK // 2].astype(np.int32)
            return high + joined_pairs(shared, 7 * shared)
        if self is Layout.PLANES:
            return 16 * stored[..., :BLOCK].astype(np.int32) + stored[..., BLOCK:]
        whole = np.empty((*stored.shape[:-1], BLOCK), np.int32)
        whole[..., WORD_ORDER.reshape(-1)] = stored.view(np.int16)
        return whole


@dataclass(frozen=True)
class Quantized:
    """`QuantizedRows` of formats.h, for N rows."""

    rows: int
    layout: Layout
    rounding: Rounding
    values: NDArray[np.int8]
    scales: NDArray[np.float32]
    offsets: NDArray[np.int32]
    scaled_sums: NDArray[np.float32]

    @staticmethod
    def empty(rows: int, columns: int, layout: Layout, rounding: Rounding) -> "Quantized":
        blocks = -(-columns // BLOCK)
        grouped = -(-rows // ROW_GROUP), blocks, ROW_GROUP
        return Quantized(
            rows,
            layout,
            rounding,
            np.full((*grouped, 2 * BLOCK), 55, np.int8),
            np.full(grouped, 55, np.float32),
            np.full(grouped, 55, np.int32),
            np.full(grouped, 55, np.float32),
        )

    def buffers(self) -> tuple[NDArray[np.generic], ...]:
        """As a unit takes them."""
        return self.values, self.scales, self.offsets, self.scaled_sums

    def by_row(self) -> tuple[NDArray[np.float64], ...]:
        """Values [N, I]; scales, offsets and scaled sums [N, B]. All fit doubles exactly."""
        groups, blocks = self.scales.shape[:2]
        rows = groups * ROW_GROUP
        whole = self.layout.read(self.values, self.rounding)
        values_NI = whole.transpose(0, 2, 1, 3).reshape(rows, blocks * BLOCK)
        others = self.scales, self.offsets, self.scaled_sums
        others_NB = [each.transpose(0, 2, 1).reshape(rows, blocks) for each in others]
        return tuple(each[: self.rows].astype(np.float64) for each in (values_NI, *others_NB))


@dataclass(frozen=True)
class Narrowed:
    """`QuantizedRows` of formats.h for N rows and a matrix unit."""

    rows: int
    pair_rows: int
    values: NDArray[np.uint16]

    @staticmethod
    def empty(rows: int, columns: int, pair_rows: int | None = None) -> "Narrowed":
        """`pair_rows`: as a step of so many rows has it, if not given."""
        blocks = -(-columns // BLOCK)
        grouped = -(-rows // ROW_GROUP), blocks, ROW_GROUP, BLOCK
        if pair_rows is None:
            pair_rows = rows if 1 < rows <= ROW_GROUP else 0
        return Narrowed(rows, pair_rows, np.full(grouped, 0x7FC0, np.uint16))

    @staticmethod
    def of(x_NI: NDArray[np.float32], pair_rows: int | None = None) -> "Narrowed":
        """Rows of whole blocks, of numbers that are bfloat16."""
        rows, columns = x_NI.shape
        out = Narrowed.empty(rows, columns, pair_rows)
        words_NBK = (x_NI.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
        words_NBK = words_NBK.reshape(rows, -1, BLOCK)
        for row in range(rows):
            to = out.row(row)
            to[...] = words_NBK[row].reshape(to.shape)
        return out

    def row(self, row: int) -> NDArray[np.uint16]:
        """A view of one: [B, 32], or [B, 16, 2] by pair."""
        if not self.pair_rows:
            return self.values[row // ROW_GROUP, :, row % ROW_GROUP]
        blocks = self.values.shape[1]
        shape = blocks, BLOCK // 2, self.pair_rows, 2
        pairs = self.values.reshape(-1)[: blocks * BLOCK * self.pair_rows].reshape(shape)
        return pairs[:, :, row]

    def by_row(self) -> NDArray[np.float32]:
        """[N, I]."""
        words = np.stack([self.row(row).reshape(-1) for row in range(self.rows)])
        numbers: NDArray[np.float32] = (words.astype(np.uint32) << np.uint32(16)).view(np.float32)
        return numbers

    def buffers(self) -> tuple[NDArray[np.generic], ...]:
        """As a unit takes them: the others are not for it."""
        nothing = np.zeros(1, np.float32)
        return self.values, nothing, nothing, nothing


def nearest_bf16(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Ties to even."""
    bits = values.view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))
    return (rounded & np.uint32(0xFFFF0000)).view(np.float32)


def pad_rows(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """Zero rows up to a whole tile."""
    missing = [(0, -len(array) % TILE), *[(0, 0)] * (array.ndim - 1)]
    return np.pad(array, missing)


def packed_dense(values_OI: NDArray[np.generic]) -> NDArray[np.uint8]:
    padded_OI = pad_rows(values_OI)
    tiles = padded_OI.reshape(-1, TILE, padded_OI.shape[1]).transpose(0, 2, 1)
    return np.ascontiguousarray(tiles).view(np.uint8).reshape(-1)


def packed_blocks(
    halves_OBX: NDArray[np.float16],
    q_OBK: NDArray[np.int8],
    weight_format: int,
    layout: Layout,
) -> NDArray[np.uint8]:
    """The tiles of formats.h; `halves_OBX`: scale, and minimum where there is one."""
    halves_OBX, q_OBK = pad_rows(halves_OBX), pad_rows(q_OBK)
    blocks = q_OBK.shape[1]
    head = halves_OBX.reshape(-1, TILE, blocks, halves_OBX.shape[2]).transpose(0, 2, 3, 1)
    q_TBLK = q_OBK.reshape(-1, TILE, blocks, BLOCK).transpose(0, 2, 1, 3)
    codes = _by_output if layout is Layout.BF16 else _by_quad
    tiles = (len(q_OBK) // TILE, blocks, -1)
    head_bytes = np.ascontiguousarray(head).view(np.uint8).reshape(tiles)
    code_bytes = codes(q_TBLK, weight_format).reshape(tiles)
    return np.concatenate([head_bytes, code_bytes], axis=2).reshape(-1)


def _by_quad(q_TBLK: NDArray[np.int8], weight_format: int) -> NDArray[np.uint8]:
    quads = q_TBLK.view(np.uint8).reshape(*q_TBLK.shape[:3], 8, 4).swapaxes(2, 3)
    if weight_format == Q8_0:
        return np.ascontiguousarray(quads)
    return quads[:, :, 0::2] | quads[:, :, 1::2] * np.uint8(16)


def _by_output(q_TBLK: NDArray[np.int8], weight_format: int) -> NDArray[np.uint8]:
    tiles, blocks = q_TBLK.shape[:2]
    if weight_format == Q8_0:
        codes = (q_TBLK.astype(np.int64) + 128).reshape(tiles, blocks, 8, 2, 16, 2)
        shifts, turned, bits = np.array([[0, 8], [16, 24]])[:, None], 15, 32
        words = (codes << shifts).sum((3, 5))
        kind: type[np.unsignedinteger] = np.uint32
    else:
        codes = q_TBLK.astype(np.int64).reshape(tiles, blocks, 4, 4, BLOCK)
        words, turned, bits = (codes << 4 * np.arange(4)[:, None]).sum(3), 1, 16
        kind = np.uint16
    rotated = (words << turned | words >> (bits - turned)) & ((1 << bits) - 1)
    return np.ascontiguousarray(rotated.astype(kind)).view(np.uint8)
