"""Norm, quantisation and embedding of the native backend, on every instruction set.

Dimensions: N rows, I columns, B blocks of 32 columns, O rows of a table.
"""

from collections.abc import Iterator

import numpy as np
import pytest
from gguf.constants import GGMLQuantizationType
from gguf.quants import dequantize
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.ops.native_build import INSTRUCTION_SETS, QUANTISING, Unit, built_unit
from tests.ops.native_formats import (
    BF16,
    BLOCK,
    FP16,
    FP32,
    Q4_0,
    Q4_1,
    Q8_0,
    SCALED,
    Quantized,
    Rounding,
    halves_of_pairs,
    packed_blocks,
    packed_dense,
)

KINDS = {
    Q8_0: GGMLQuantizationType.Q8_0,
    Q4_0: GGMLQuantizationType.Q4_0,
    Q4_1: GGMLQuantizationType.Q4_1,
}
SENTINEL = 77.0
roundings = pytest.mark.parametrize("rounding", Rounding, ids=lambda rounding: rounding.name)
COLUMNS = [1, 3, 16, 31, 32, 33, 64, 100, 576, 1031]


def rows_unit(request: pytest.FixtureRequest, folders: pytest.TempPathFactory) -> Iterator[Unit]:
    with built_unit("rows_unit", request.param, folders.mktemp("native")) as made:
        yield made


@pytest.fixture(scope="module", params=INSTRUCTION_SETS, ids=lambda isa: isa.name)
def unit(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Unit]:
    yield from rows_unit(request, tmp_path_factory)


@pytest.fixture(scope="module", params=QUANTISING, ids=lambda isa: isa.name)
def quantising(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Unit]:
    yield from rows_unit(request, tmp_path_factory)


def assert_same(one: Quantized, other: Quantized) -> None:
    for ours, theirs in zip(one.by_row(), other.by_row(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def sizes(*values: int) -> NDArray[np.int64]:
    return np.array(values, np.int64)


def eps_of(eps: float) -> NDArray[np.float32]:
    return np.array([eps], np.float32)


def random_rows(rows: int, columns: int, seed: int = 0, spread: float = 1.0) -> NDArray[np.float32]:
    random = np.random.default_rng(seed)
    return (random.standard_normal((rows, columns)) * spread).astype(np.float32)


def norm(
    unit: Unit, x_NI: NDArray[np.float32], gain_I: NDArray[np.float32], eps: float, columns: int
) -> NDArray[np.float32]:
    y_NI = np.full((len(x_NI), columns + 5), SENTINEL, np.float32)
    strides = sizes(len(x_NI), x_NI.shape[1], columns, y_NI.shape[1])
    unit.call("norm", x_NI, gain_I, eps_of(eps), strides, y_NI)
    assert (y_NI[:, columns:] == SENTINEL).all()
    return y_NI[:, :columns].copy()


def norm_quantized(
    unit: Unit,
    x_NI: NDArray[np.float32],
    gain_I: NDArray[np.float32],
    eps: float,
    columns: int,
    rounding: Rounding,
) -> Quantized:
    out = Quantized.empty(len(x_NI), columns, unit.layout, rounding)
    strides = sizes(len(x_NI), x_NI.shape[1], columns, 0, rounding.value)
    unit.call("norm_quantized", x_NI, gain_I, eps_of(eps), strides, *out.buffers())
    return out


def quantize(unit: Unit, x_NI: NDArray[np.float32], columns: int, rounding: Rounding) -> Quantized:
    out = Quantized.empty(len(x_NI), columns, unit.layout, rounding)
    quantize_rows(unit, x_NI, 0, len(x_NI), columns, out)
    return out


def quantize_rows(
    unit: Unit, x_NI: NDArray[np.float32], begin: int, end: int, columns: int, out: Quantized
) -> None:
    strides = sizes(begin, end, x_NI.shape[1], columns, 0, out.rounding.value)
    unit.call("quantize", x_NI, strides, *out.buffers())


def exact_norm(
    x_NI: NDArray[np.float32], gain_I: NDArray[np.float32], eps: float
) -> NDArray[np.float64]:
    x = x_NI.astype(np.float64)
    scale_N1 = 1 / np.sqrt((x**2).mean(-1, keepdims=True) + np.float32(eps))
    result: NDArray[np.float64] = x * scale_N1 * gain_I
    return result


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("spread", [1e-4, 1.0, 3e4])
def test_norm_agrees_with_the_formula(unit: Unit, columns: int, spread: float) -> None:
    x_NI = random_rows(4, columns + 3, spread=spread)  # NaN behind the row would be seen
    x_NI[:, columns:] = np.nan
    gain_I = random_rows(1, columns, seed=1)[0]
    exact = exact_norm(x_NI[:, :columns], gain_I, 1e-5)
    np.testing.assert_allclose(norm(unit, x_NI, gain_I, 1e-5, columns), exact, rtol=5e-7)


@roundings
@pytest.mark.parametrize("columns", COLUMNS)
def test_a_quantised_norm_is_the_norm_quantised(
    quantising: Unit, columns: int, rounding: Rounding
) -> None:
    x_NI, gain_I = random_rows(3, columns), random_rows(1, columns, seed=1)[0]
    y_NI = norm(quantising, x_NI, gain_I, 1e-6, columns)
    assert_same(
        norm_quantized(quantising, x_NI, gain_I, 1e-6, columns, rounding),
        quantize(quantising, y_NI, columns, rounding),
    )


@roundings
@given(rows=st.integers(1, 5), columns=st.integers(1, 140), seed=st.integers(0, 99))
def test_quantising_rounds_as_numpy_does(
    quantising: Unit, rounding: Rounding, rows: int, columns: int, seed: int
) -> None:
    x_NI = random_rows(rows, columns + 2, seed, spread=10.0 ** (seed % 9 - 4))
    x_NI[:, columns:] = np.nan
    out, most = quantize(quantising, x_NI, columns, rounding), rounding.largest
    blocks = -(-columns // BLOCK)
    padded = np.zeros((rows, (blocks + blocks % SCALED) * BLOCK), np.float32)
    padded[:, :columns] = x_NI[:, :columns]
    most_NP = np.abs(padded.reshape(rows, -1, SCALED * BLOCK)).max(-1)
    most_NB = np.repeat(most_NP, SCALED, axis=1)[:, :blocks]
    x_NBK = padded[:, : blocks * BLOCK].reshape(rows, blocks, BLOCK)
    scales_NB = most_NB * np.float32(1 / most)
    inverse_NB = np.divide(np.float32(most), most_NB, out=most_NB * 0, where=most_NB > 0)
    values_NBK = rounding.nearest(np.clip(x_NBK * inverse_NB[..., None], -most, most))
    sums_NB = values_NBK.sum(-1)
    scaled_sums_NB = scales_NB * sums_NB.astype(np.float32)
    expected = values_NBK.reshape(rows, -1), scales_NB, -8 * sums_NB, scaled_sums_NB
    for ours, exact in zip(out.by_row(), expected, strict=True):
        np.testing.assert_array_equal(ours, exact)


def steps_off(unit: Unit, rounding: Rounding, x_NI: NDArray[np.float32]) -> NDArray[np.float64]:
    """How far quantised numbers are from what they stand for, in units of their scales."""
    values_NI, scales_NB = quantize(unit, x_NI, x_NI.shape[1], rounding).by_row()[:2]
    return values_NI - x_NI / np.repeat(scales_NB, BLOCK, axis=1)


def test_numbers_of_twelve_bits_are_off_by_half_a_step_at_most(quantising: Unit) -> None:
    off_NI = steps_off(quantising, Rounding.TWELVE_BITS, random_rows(20, 96))
    assert np.abs(off_NI).max() < 0.50001


def test_pairs_are_off_by_as_much_as_steps_of_eight_would_be(quantising: Unit) -> None:
    off_NI = steps_off(quantising, Rounding.PAIRS, random_rows(200, 96))
    first, second = halves_of_pairs(off_NI.reshape(-1, BLOCK))
    # Half of (1, 7) and half of (9, -1), either sign.
    assert np.abs(first).max() < 5.002
    assert np.abs(second).max() < 4.002
    # Of steps of eight 64 / 12; the cell's sides differ a little.
    assert abs((off_NI**2).mean() - (1 + 49 + 81 + 1) / 24) < 0.1


@roundings
def test_the_ends_of_the_range_fit_their_bytes(quantising: Unit, rounding: Rounding) -> None:
    # All signs of both numbers of a pair, and next to the ends.
    ends = np.array([1, -1, 0.9999, -0.9999, 0.5, -0.5, 0], np.float32)
    first, second = (each.reshape(-1) for each in np.meshgrid(ends, ends))
    x_NI = np.tile(np.repeat(np.stack([first, second], 1), 4, 1), 8)
    x_NI[:, 32:] = 1  # so that every row has the whole range
    out = quantize(quantising, x_NI.astype(np.float32), x_NI.shape[1], rounding)
    values_NI, scales_NB = out.by_row()[:2]
    off_NI = values_NI * scales_NB[:, :1] - x_NI
    assert np.abs(off_NI).max() <= rounding.most_off / rounding.largest


@roundings
def test_what_is_no_number_or_infinite_stays_in_its_row(
    quantising: Unit, rounding: Rounding
) -> None:
    x_NI = random_rows(5, 128)
    whole = quantize(quantising, x_NI, 128, rounding).by_row()
    x_NI[1, 3], x_NI[3, 70] = np.nan, np.inf
    out = quantize(quantising, x_NI, 128, rounding).by_row()
    for ours, before in zip(out, whole, strict=True):
        np.testing.assert_array_equal(ours[[0, 2, 4]], before[[0, 2, 4]])
    assert np.abs(out[0]).max() <= rounding.largest + 5


@roundings
def test_a_block_of_zeros_stays_zero(quantising: Unit, rounding: Rounding) -> None:
    x_NI = random_rows(2, 160)
    x_NI[1, 64:128] = 0
    out = quantize(quantising, x_NI, 160, rounding)
    assert not out.by_row()[0][1, 64:128].any()
    assert [array[1, 2:4].tolist() for array in out.by_row()[1:]] == [[0, 0]] * 3
    gain_I = np.ones(96, np.float32)
    assert not norm(quantising, np.zeros((1, 96), np.float32), gain_I, 1e-5, 96).any()


@roundings
def test_only_the_rows_asked_for_are_quantised(quantising: Unit, rounding: Rounding) -> None:
    x_NI = random_rows(5, 64)
    out, whole, untouched = (Quantized.empty(5, 64, quantising.layout, rounding) for _ in range(3))
    quantize_rows(quantising, x_NI, 0, 5, 64, whole)
    quantize_rows(quantising, x_NI, 2, 4, 64, out)
    for ours, all_of_it, none in zip(out.by_row(), whole.by_row(), untouched.by_row(), strict=True):
        np.testing.assert_array_equal(ours[2:4], all_of_it[2:4])
        np.testing.assert_array_equal(ours[[0, 1, 4]], none[[0, 1, 4]])


@roundings
def test_a_row_has_the_same_bits_alone_and_among_others(
    quantising: Unit, rounding: Rounding
) -> None:
    x_NI, gain_I = random_rows(19, 200), random_rows(1, 200, seed=1)[0]
    together = norm(quantising, x_NI, gain_I, 1e-5, 200)
    quantised = norm_quantized(quantising, x_NI, gain_I, 1e-5, 200, rounding)
    for row in range(19):
        alone_NI = x_NI[row : row + 1].copy()
        np.testing.assert_array_equal(
            norm(quantising, alone_NI, gain_I, 1e-5, 200)[0], together[row]
        )
        alone = norm_quantized(quantising, alone_NI, gain_I, 1e-5, 200, rounding)
        for one, many in zip(alone.by_row(), quantised.by_row(), strict=True):
            np.testing.assert_array_equal(one[0], many[row])


def embed(
    unit: Unit, weight_format: int, packed: NDArray[np.uint8], shape: tuple[int, int]
) -> NDArray[np.float32]:
    """All rows of the table, the last first, twice."""
    rows, columns = shape
    token_ids = np.tile(np.arange(rows, dtype=np.int32)[::-1], 2)
    y_NI = np.full((len(token_ids), columns + 3), SENTINEL, np.float32)
    table = sizes(weight_format, rows, columns, len(token_ids), y_NI.shape[1])
    unit.call("embed", packed, table, token_ids, y_NI)
    assert (y_NI[:, columns:] == SENTINEL).all()
    np.testing.assert_array_equal(y_NI[:rows], y_NI[rows:])
    return y_NI[:rows][::-1, :columns].copy()


def gguf_blocks(
    halves_OBX: NDArray[np.float16], q_OBK: NDArray[np.int8], weight_format: int
) -> NDArray[np.uint8]:
    """The same numbers as a GGUF keeps them."""
    payload = q_OBK.view(np.uint8)
    if weight_format != Q8_0:
        payload = payload[..., :16] | payload[..., 16:] * np.uint8(16)
    blocks = np.concatenate([halves_OBX.view(np.uint8), payload], axis=2)
    return blocks.reshape(len(q_OBK), -1)


@pytest.mark.parametrize("weight_format", KINDS)
@pytest.mark.parametrize(("rows", "blocks"), [(1, 1), (16, 2), (37, 5)])
def test_embeddings_of_quantised_tables_have_the_bits_that_gguf_computes(
    unit: Unit, weight_format: int, rows: int, blocks: int
) -> None:
    random = np.random.default_rng(weight_format)
    low, high = (-128, 128) if weight_format == Q8_0 else (0, 16)
    q_OBK = random.integers(low, high, (rows, blocks, BLOCK)).astype(np.int8)
    # Subnormal halves, too.
    exponents = random.uniform(-7, 2, (rows, blocks, 2 if weight_format == Q4_1 else 1))
    signs = random.choice([-1.0, 1.0], exponents.shape)
    halves_OBX = (signs * 10**exponents).astype(np.float16)
    exact_OI = dequantize(gguf_blocks(halves_OBX, q_OBK, weight_format), KINDS[weight_format])
    packed = packed_blocks(halves_OBX, q_OBK, weight_format, unit.layout)
    embedded_OI = embed(unit, weight_format, packed, (rows, blocks * BLOCK))
    np.testing.assert_array_equal(embedded_OI, exact_OI)


@pytest.mark.parametrize("columns", [1, 30, 33, 40])
def test_a_quantised_table_may_end_within_a_block(unit: Unit, columns: int) -> None:
    random = np.random.default_rng(0)
    blocks = -(-columns // BLOCK)
    q_OBK = random.integers(-127, 128, (20, blocks, BLOCK)).astype(np.int8)
    scales_OB1 = random.uniform(0.01, 1, (20, blocks, 1)).astype(np.float16)
    exact_OI = (scales_OB1.astype(np.float32) * q_OBK).reshape(20, -1)[:, :columns]
    packed = packed_blocks(scales_OB1, q_OBK, Q8_0, unit.layout)
    np.testing.assert_array_equal(embed(unit, Q8_0, packed, (20, columns)), exact_OI)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (16, 16), (21, 37), (35, 100)])
@pytest.mark.parametrize("weight_format", [FP32, BF16, FP16])
def test_embeddings_of_dense_tables_are_exact(
    unit: Unit, weight_format: int, rows: int, columns: int
) -> None:
    values_OI = random_rows(rows, columns, seed=2)
    stored_OI: NDArray[np.generic] = values_OI
    if weight_format == FP16:
        stored_OI = values_OI.astype(np.float16)
        values_OI = stored_OI.astype(np.float32)
    elif weight_format == BF16:
        stored_OI = (values_OI.view(np.uint32) >> 16).astype(np.uint16)
        values_OI = (stored_OI.astype(np.uint32) << 16).view(np.float32)
    embedded_OI = embed(unit, weight_format, packed_dense(stored_OI), (rows, columns))
    np.testing.assert_array_equal(embedded_OI, values_OI)
