"""Packed matrices stand for the numbers of the checkpoint."""

import numpy as np
import pytest
from gguf.constants import GGMLQuantizationType
from gguf.quants import dequantize, quantize
from numpy.typing import NDArray
from tests.ops.native_formats import Layout, packed_blocks

from netgain.ops.cpu.library import Library, load
from netgain.ops.cpu.memory import WeightMemory
from netgain.ops.cpu.packing import (
    CodeLayout,
    PackedFormat,
    pack_rows,
    packed_bytes,
    unpack_row,
)
from netgain.ops.stored import StoredType

F32, F16, BF16 = StoredType.F32, StoredType.F16, StoredType.BF16
Q4_0, Q4_1, Q8_0 = StoredType.Q4_0, StoredType.Q4_1, StoredType.Q8_0
# Tie-free bound on |stored - number| in units of the block's scale: half a step, and what rounding
# scale and minimum to float16 moves the ends by.
HALF_STEP = 0.5 + 2.0**-6


@pytest.fixture(scope="module")
def library() -> Library:
    found = load()
    if not isinstance(found, Library):
        pytest.skip(found.reason)
    return found


def numbers(rows: int, columns: int, seed: int = 0) -> NDArray[np.float32]:
    """Like weights: normal, with a few outliers."""
    random = np.random.default_rng(seed)
    values = random.standard_normal((rows, columns)) * 0.05
    values[random.random((rows, columns)) < 0.01] *= 20
    return values.astype(np.float32)


def stored(kind: StoredType, values: NDArray[np.float32]) -> NDArray[np.uint8]:
    """The rows as a GGUF keeps them."""
    data = quantize(values, GGMLQuantizationType(kind))
    return np.ascontiguousarray(data).view(np.uint8).reshape(values.shape[0], -1)


def meaning(kind: StoredType, data: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The numbers by the `gguf` package."""
    if kind == F16:
        return data.view(np.float16).astype(np.float32)
    return np.asarray(dequantize(data, GGMLQuantizationType(kind)), np.float32)


def room(
    library: Library, packed_format: PackedFormat, shape: tuple[int, int]
) -> NDArray[np.uint8]:
    return WeightMemory().take(packed_bytes(library, packed_format, shape))


def packed_and_back(
    library: Library,
    packed_format: PackedFormat,
    kind: StoredType,
    data: NDArray[np.uint8],
    columns: int,
    layout: CodeLayout | None = None,
) -> NDArray[np.float32]:
    rows = np.random.default_rng(7).permutation(data.shape[0]).astype(np.int32)
    packed = room(library, packed_format, (data.shape[0], columns))
    pack_rows(library, packed_format, columns, kind, data, rows, packed, layout)
    unpacked = [unpack_row(library, packed_format, columns, packed, row, layout) for row in rows]
    return np.stack(unpacked)


@pytest.mark.parametrize(
    ("kind", "packed_format"),
    [
        (Q4_0, PackedFormat.Q4_0),
        (Q4_1, PackedFormat.Q4_1),
        (Q8_0, PackedFormat.Q8_0),
        (Q4_0, PackedFormat.Q8_0),
        (Q4_0, PackedFormat.Q4_1),
        (Q4_1, PackedFormat.FP32),
        (F32, PackedFormat.FP32),
        (F16, PackedFormat.FP16),
        (F16, PackedFormat.FP32),
        (BF16, PackedFormat.BF16),
        (BF16, PackedFormat.FP32),
    ],
)
def test_packing_keeps_every_number_of_a_stored_row(
    library: Library, kind: StoredType, packed_format: PackedFormat
) -> None:
    data = stored(kind, numbers(37, 96))
    np.testing.assert_array_equal(
        packed_and_back(library, packed_format, kind, data, 96), meaning(kind, data)
    )


@pytest.mark.parametrize("layout", list(CodeLayout))
@pytest.mark.parametrize(
    ("kind", "packed_format"),
    [(Q4_0, PackedFormat.Q4_0), (Q4_1, PackedFormat.Q4_1), (Q8_0, PackedFormat.Q8_0)],
)
def test_packing_keeps_any_codes_a_block_can_hold(
    library: Library, kind: StoredType, packed_format: PackedFormat, layout: CodeLayout
) -> None:
    data = stored(kind, numbers(16, 64, seed=1))
    blocks = data.reshape(-1, data.shape[1] // 2)
    head_bytes = 4 if kind == Q4_1 else 2
    codes = np.random.default_rng(2).integers(0, 256, blocks.shape, np.uint8)
    blocks[:, head_bytes:] = codes[:, head_bytes:]
    np.testing.assert_array_equal(
        packed_and_back(library, packed_format, kind, data, 64, layout), meaning(kind, data)
    )


@pytest.mark.parametrize(
    ("layout", "order"), [(CodeLayout.BY_QUAD, Layout.PLANES), (CodeLayout.BY_OUTPUT, Layout.BF16)]
)
@pytest.mark.parametrize("kind", [Q4_0, Q4_1, Q8_0])
def test_packed_bytes_are_those_that_kernels_are_tested_with(
    library: Library, kind: StoredType, layout: CodeLayout, order: Layout
) -> None:
    data = stored(kind, numbers(37, 96, seed=3))
    packed_format = PackedFormat[kind.name]
    packed = room(library, packed_format, (37, 96))
    pack_rows(library, packed_format, 96, kind, data, np.arange(37, dtype=np.int32), packed, layout)
    head_bytes = 4 if kind == Q4_1 else 2
    blocks_OBY = data.reshape(37, 3, -1)
    halves_OBX = np.ascontiguousarray(blocks_OBY[..., :head_bytes]).view(np.float16)
    codes_OBK = blocks_OBY[..., head_bytes:]
    if kind != Q8_0:
        codes_OBK = np.concatenate([codes_OBK & 15, codes_OBK >> 4], axis=-1)
    q_OBK = np.ascontiguousarray(codes_OBK).view(np.int8)
    expected = packed_blocks(halves_OBX, q_OBK, packed_format, order)
    if kind == Q8_0 and order is Layout.BF16:
        # Of rows that are not there the scale is zero; their codes may be what they will.
        packed, expected = (each.reshape(3, 3, -1)[:2] for each in (packed, expected))
    np.testing.assert_array_equal(packed, expected)


@pytest.mark.parametrize("columns", [1, 31, 32, 33, 96, 100])
@pytest.mark.parametrize(
    ("packed_format", "steps"),
    [(PackedFormat.Q8_0, 127.0), (PackedFormat.Q4_0, 8.0), (PackedFormat.Q4_1, 15.0)],
)
def test_a_number_quantised_is_within_half_a_step(
    library: Library, packed_format: PackedFormat, steps: float, columns: int
) -> None:
    values = numbers(19, columns, seed=columns)
    back = packed_and_back(library, packed_format, F32, values.view(np.uint8), columns)
    for first in range(0, columns, 32):
        block = values[:, first : first + 32]
        if packed_format is PackedFormat.Q4_1:
            scale = (block.max(axis=1) - block.min(axis=1)) / steps
        else:
            scale = np.abs(block).max(axis=1) / steps
        error = np.abs(back[:, first : first + 32] - block)
        if packed_format is PackedFormat.Q4_0:
            # Seven steps on the other side of zero: what lies beyond is cut off there.
            error = np.where(error > HALF_STEP * scale[:, None], 0, error)
            assert (np.abs(back[:, first : first + 32] - block) <= 1.01 * scale[:, None]).all()
        slack = np.abs(block).max(axis=1) * 2.0**-10
        assert (error <= (HALF_STEP * scale + slack)[:, None]).all()


@pytest.mark.parametrize("columns", [1, 33, 100])
@pytest.mark.parametrize("packed_format", [PackedFormat.FP32, PackedFormat.FP16, PackedFormat.BF16])
def test_dense_rows_of_any_width_are_rounded_to_the_nearest(
    library: Library, packed_format: PackedFormat, columns: int
) -> None:
    values = numbers(5, columns)
    back = packed_and_back(library, packed_format, F32, values.view(np.uint8), columns)
    if packed_format is PackedFormat.FP32:
        expected = values
    elif packed_format is PackedFormat.FP16:
        expected = values.astype(np.float16).astype(np.float32)
    else:
        expected = meaning(BF16, stored(BF16, values))
    np.testing.assert_array_equal(back, expected)


@pytest.mark.parametrize("packed_format", list(PackedFormat))
def test_numbers_without_spread_stay_exact(library: Library, packed_format: PackedFormat) -> None:
    values = np.zeros((3, 64), np.float32)
    values[1] = 0.5
    values[2] = -0.25
    back = packed_and_back(library, packed_format, F32, values.view(np.uint8), 64)
    np.testing.assert_allclose(back, values, rtol=2.0**-10, atol=0)


def test_packing_some_rows_leaves_the_others_alone(library: Library) -> None:
    data = stored(Q4_1, numbers(40, 64))
    at_once = room(library, PackedFormat.Q4_1, (40, 64))
    piecewise = room(library, PackedFormat.Q4_1, (40, 64))
    rows = np.arange(40, dtype=np.int32)
    pack_rows(library, PackedFormat.Q4_1, 64, Q4_1, data, rows, at_once)
    for begin, end in [(23, 40), (0, 5), (5, 23)]:
        pack_rows(library, PackedFormat.Q4_1, 64, Q4_1, data[begin:end], rows[begin:end], piecewise)
    np.testing.assert_array_equal(at_once, piecewise)
    assert (unpack_row(library, PackedFormat.Q4_1, 64, at_once, 47) == 0).all()


def test_a_packed_four_bit_matrix_is_as_large_as_the_stored_one(library: Library) -> None:
    stored_bytes = stored(Q4_1, numbers(48, 96)).size
    assert packed_bytes(library, PackedFormat.Q4_1, (48, 96)) == stored_bytes


def test_a_kind_that_cannot_be_packed_is_refused(library: Library) -> None:
    packed = room(library, PackedFormat.Q8_0, (16, 256))
    rows = np.zeros(1, np.int32)
    with pytest.raises(ValueError, match="Q6_K cannot be packed"):
        pack_rows(
            library,
            PackedFormat.Q8_0,
            256,
            StoredType.Q6_K,
            np.zeros((1, 210), np.uint8),
            rows,
            packed,
        )
    with pytest.raises(ValueError, match="rows of 40 columns of Q4_0 cannot be packed"):
        pack_rows(library, PackedFormat.Q8_0, 40, Q4_0, np.zeros((1, 18), np.uint8), rows, packed)


def test_a_row_number_outside_the_matrix_is_refused(library: Library) -> None:
    packed = room(library, PackedFormat.Q8_0, (16, 32))
    data = stored(Q8_0, numbers(1, 32))
    for row in (-1, 16):
        with pytest.raises(ValueError, match="outside a packed matrix"):
            pack_rows(library, PackedFormat.Q8_0, 32, Q8_0, data, np.array([row], np.int32), packed)
    with pytest.raises(ValueError, match="take 34 bytes, not 33"):
        pack_rows(
            library,
            PackedFormat.Q8_0,
            32,
            Q8_0,
            np.ascontiguousarray(data[:, :33]),
            np.zeros(1, np.int32),
            packed,
        )
