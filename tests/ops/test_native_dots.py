"""Products with packed quantised weights, on every instruction set that has whole activations.

Dimensions: N rows, O output features, I input features, B blocks of 32 input features.
"""

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.ops.native_build import AVX_VNNI_DOTS, QUANTISING, Unit, built_unit
from tests.ops.native_formats import (
    BLOCK,
    Q4_0,
    Q4_1,
    Q8_0,
    SCALED,
    TILE,
    Layout,
    Quantized,
    Rounding,
    joined_pairs,
    packed_blocks,
)

OUTPUTS = 37
FEATURES = 160
"""Of a gated layer: two units of 64 and one of 32."""


@pytest.fixture(scope="module", params=(*QUANTISING, AVX_VNNI_DOTS), ids=lambda isa: isa.name)
def unit(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Unit]:
    with built_unit("linear_unit", request.param, tmp_path_factory.mktemp("native")) as made:
        yield made


class Weight:
    """Random blocks, the extremes of their integers among them."""

    def __init__(self, weight_format: int, blocks: int = 3, outputs: int = OUTPUTS) -> None:
        random = np.random.default_rng(weight_format)
        self.blocks = blocks
        low, high = (-127, 127) if weight_format == Q8_0 else (0, 15)
        self.format = weight_format
        q_OBK = random.integers(low, high + 1, (outputs, blocks, BLOCK)).astype(np.int8)
        q_OBK[0], q_OBK[1] = low, high
        halves_OBX = random.uniform(0.01, 1, (outputs, blocks, 1 + (weight_format == Q4_1)))
        halves = halves_OBX.astype(np.float16)
        self.packed = packed_blocks(halves, q_OBK, weight_format, Layout.PLANES)
        offset = 8 if weight_format == Q4_0 else 0
        wide = halves.astype(np.float64)
        meaning_OBK = wide[..., :1] * (q_OBK - offset) + wide[..., 1:].sum(-1)[..., None]
        self.meaning_OI = meaning_OBK.reshape(outputs, -1)


def extremes(rounding: Rounding) -> list[NDArray[np.int32]]:
    """Blocks that hold nothing but the ends of the range."""
    most = rounding.largest
    pairs = [(most, most), (-most, -most)]
    if rounding is Rounding.PAIRS:
        # Of this lattice, and with the largest number that pairs share.
        pairs = [(7900, 7876), (-7900, -7876), (7904, 7840), (-7904, -7840)]
    return [
        joined_pairs(*(np.full(BLOCK // 2, number, np.int32) for number in pair)) for pair in pairs
    ]


def activations(
    rows: int, unit: Unit, rounding: Rounding, blocks: int = 3, size: float = 1.0
) -> tuple[Quantized, NDArray[np.float64]]:
    """And what they mean [N, I]. The last rows hold nothing but the ends of the range."""
    random = np.random.default_rng(rows)
    out = Quantized.empty(rows, blocks * BLOCK, unit.layout, rounding)
    scaled_NBK = random.uniform(-rounding.largest, rounding.largest, (rows, blocks, BLOCK))
    values_NBK = rounding.nearest(scaled_NBK.astype(np.float32))
    for row, block in zip(reversed(range(rows)), extremes(rounding), strict=False):
        values_NBK[row] = block
    unit_size = size / rounding.largest
    pairs = unit_size * random.uniform(0.01, 1, (rows, -(-blocks // SCALED))).astype(np.float32)
    pairs[0, 0] = 1e-40  # denormal
    scales_NB = np.repeat(pairs, SCALED, axis=1)[:, :blocks]
    for row in range(rows):
        at = row // 16, slice(None), row % 16
        out.values[at] = unit.layout.stored(values_NBK[row], rounding)
        out.scales[at] = scales_NB[row]
        sums_B = values_NBK[row].sum(-1)
        out.offsets[at] = -8 * sums_B
        out.scaled_sums[at] = scales_NB[row] * sums_B.astype(np.float32)
    meaning_NBK = values_NBK.astype(np.float64) * scales_NB[..., None]
    return out, meaning_NBK.reshape(rows, -1)


def only(x: Quantized, row: int) -> Quantized:
    """One of the rows."""
    alone = Quantized.empty(1, x.scales.shape[1] * BLOCK, x.layout, x.rounding)
    for ours, all_of_them in zip(alone.buffers(), x.buffers(), strict=True):
        ours[0, :, 0] = all_of_them[row // 16, :, row % 16]
    return alone


def product(unit: Unit, weight: Weight, x: Quantized) -> NDArray[np.float32]:
    outputs = len(weight.meaning_OI)
    y_NO = np.zeros((x.rows, outputs), np.float32)
    sizes = np.array([weight.format, outputs, weight.blocks * BLOCK, 0, x.rows, 0], np.int64)
    no_bias = np.zeros(-(-outputs // TILE) * TILE, np.float32)
    unit.call("linear", weight.packed, sizes, *x.buffers(), y_NO, no_bias)
    return y_NO


@pytest.mark.parametrize("weight_format", [Q8_0, Q4_0, Q4_1])
@pytest.mark.parametrize("rows", [1, 2, 3, 8, 9, 15, 16, 17, 25, 32, 33, 48, 70])
@pytest.mark.parametrize("blocks", [1, 2, 3, 17, 18])
def test_products_are_exact_but_for_adding_the_blocks(
    unit: Unit, weight_format: int, rows: int, blocks: int
) -> None:
    weight = Weight(weight_format, blocks)
    x, x_NI = activations(rows, unit, Rounding.suiting(weight_format), blocks)
    size_NO = np.abs(x_NI) @ np.abs(weight.meaning_OI.T)
    allowed_NO = 1e-7 * max(3, blocks) * size_NO + 1e-30
    difference_NO = np.abs(product(unit, weight, x) - x_NI @ weight.meaning_OI.T)
    assert (difference_NO <= allowed_NO).all()


@pytest.mark.parametrize("weight_format", [Q8_0, Q4_0, Q4_1])
@pytest.mark.parametrize("blocks", [3, 34])
def test_a_row_has_the_same_bits_alone_and_among_others(
    unit: Unit, weight_format: int, blocks: int
) -> None:
    weight = Weight(weight_format, blocks)
    for rows in (70, 62, 53, 30, 21, 13, 5):
        x, _ = activations(rows, unit, Rounding.suiting(weight_format), blocks)
        together_NO = product(unit, weight, x)
        for row in range(0, rows, 1 + rows // 16):
            alone_NO = product(unit, weight, only(x, row))
            np.testing.assert_array_equal(alone_NO[0], together_NO[row])


def gate(unit: Unit, weight: Weight, x: Quantized, rounding: Rounding) -> Quantized:
    out = Quantized.empty(x.rows, FEATURES, unit.layout, rounding)
    columns = weight.blocks * BLOCK
    sizes = np.array([weight.format, 2 * FEATURES, columns, x.rows, 0, rounding.value], np.int64)
    no_floats = np.zeros(1, np.float32)
    no_bias = np.zeros(2 * FEATURES, np.float32)
    unit.call("gated", weight.packed, sizes, *x.buffers(), *out.buffers(), no_floats, no_bias)
    return out


@pytest.mark.parametrize("weight_format", [Q8_0, Q4_0, Q4_1])
@pytest.mark.parametrize("rows", [1, 7, 9, 16, 21, 30, 40])
@pytest.mark.parametrize("rounding", Rounding, ids=lambda rounding: rounding.name)
def test_a_gated_layer_is_its_activated_gate_times_the_rest(
    unit: Unit, weight_format: int, rows: int, rounding: Rounding
) -> None:
    weight = Weight(weight_format, outputs=2 * FEATURES)
    x, _ = activations(rows, unit, Rounding.suiting(weight_format), size=2.0**-5)
    tiles_NTO = product(unit, weight, x).astype(np.float64).reshape(rows, -1, TILE)
    gate_NF, up_NF = (tiles_NTO[:, which::2].reshape(rows, -1) for which in (0, 1))
    expected_NF = gate_NF / (1 + np.exp(-gate_NF)) * up_NF
    values_NF, scales_NB = gate(unit, weight, x, rounding).by_row()[:2]
    scales_NF = np.repeat(scales_NB, BLOCK, axis=1)
    error_NF = np.abs(values_NF * scales_NF - expected_NF)
    assert (error_NF <= rounding.most_off * scales_NF + 1e-6 * np.abs(expected_NF)).all()
    pairs_NU = np.abs(expected_NF[:, :128]).reshape(rows, 2, 64).max(-1)
    np.testing.assert_allclose(scales_NB[:, :4:2], pairs_NU / rounding.largest, rtol=1e-5)


@pytest.mark.parametrize("weight_format", [Q8_0, Q4_0, Q4_1])
@pytest.mark.parametrize("rounding", Rounding, ids=lambda rounding: rounding.name)
def test_a_gated_row_has_the_same_bits_alone_and_among_others(
    unit: Unit, weight_format: int, rounding: Rounding
) -> None:
    weight = Weight(weight_format, outputs=2 * FEATURES)
    for rows in (41, 26, 5):
        x, _ = activations(rows, unit, Rounding.suiting(weight_format), size=2.0**-5)
        together = gate(unit, weight, x, rounding).by_row()
        for row in range(0, rows, 1 + rows // 16):
            alone = gate(unit, weight, only(x, row), rounding).by_row()
            for one, many in zip(alone, together, strict=True):
                np.testing.assert_array_equal(one[0], many[row])
