"""Products with packed quantised weights, on every instruction set.

Dimensions: N rows, O output features, I input features, B blocks of 32 input features.
"""

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.ops.native_build import AVX_VNNI_DOTS, INSTRUCTION_SETS, Unit, built_unit
from tests.ops.native_formats import (
    BLOCK,
    LARGEST,
    Q4_0,
    Q4_1,
    Q8_0,
    Layout,
    Quantized,
    packed_blocks,
)

OUTPUTS, BLOCKS = 37, 3


@pytest.fixture(scope="module", params=(*INSTRUCTION_SETS, AVX_VNNI_DOTS), ids=lambda isa: isa.name)
def unit(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Unit]:
    with built_unit("linear_unit", request.param, tmp_path_factory.mktemp("native")) as made:
        yield made


class Weight:
    """Random blocks, the extremes of their integers among them."""

    def __init__(self, weight_format: int) -> None:
        random = np.random.default_rng(weight_format)
        low, high = (-127, 127) if weight_format == Q8_0 else (0, 15)
        self.format = weight_format
        q_OBK = random.integers(low, high + 1, (OUTPUTS, BLOCKS, BLOCK)).astype(np.int8)
        q_OBK[0], q_OBK[1] = low, high
        halves_OBX = random.uniform(0.01, 1, (OUTPUTS, BLOCKS, 1 + (weight_format == Q4_1)))
        halves = halves_OBX.astype(np.float16)
        self.packed = packed_blocks(halves, q_OBK, weight_format)
        offset = 8 if weight_format == Q4_0 else 0
        wide = halves.astype(np.float64)
        meaning_OBK = wide[..., :1] * (q_OBK - offset) + wide[..., 1:].sum(-1)[..., None]
        self.meaning_OI = meaning_OBK.reshape(OUTPUTS, -1)


def activations(rows: int, layout: Layout) -> tuple[Quantized, NDArray[np.float64]]:
    """And what they mean [N, I]. The last two rows hold nothing but the ends of the range."""
    random = np.random.default_rng(rows)
    out = Quantized.empty(rows, BLOCKS * BLOCK, layout)
    values_NBK = random.integers(-LARGEST, LARGEST + 1, (rows, BLOCKS, BLOCK)).astype(np.int32)
    values_NBK[-1], values_NBK[-2:-1] = LARGEST, -LARGEST
    scales_NB = random.uniform(0.01, 1, (rows, BLOCKS)).astype(np.float32)
    for row in range(rows):
        at = row // 16, slice(None), row % 16
        out.values[at] = layout.stored(values_NBK[row])
        out.scales[at] = scales_NB[row]
        out.sums[at] = values_NBK[row].sum(-1)
        out.scaled_sums[at] = out.scales[at] * out.sums[at].astype(np.float32)
    meaning_NBK = values_NBK.astype(np.float64) * scales_NB[..., None]
    return out, meaning_NBK.reshape(rows, -1)


def product(unit: Unit, weight: Weight, x: Quantized) -> NDArray[np.float32]:
    y_NO = np.full((x.rows, OUTPUTS), np.nan, np.float32)
    sizes = np.array([weight.format, OUTPUTS, BLOCKS * BLOCK, x.rows], np.int64)
    unit.call("linear", weight.packed, sizes, *x.buffers(), y_NO)
    return y_NO


@pytest.mark.parametrize("weight_format", [Q8_0, Q4_0, Q4_1])
@pytest.mark.parametrize("rows", [1, 2, 3, 8, 15, 16, 17, 33])
def test_products_are_exact_but_for_adding_the_blocks(
    unit: Unit, weight_format: int, rows: int
) -> None:
    weight = Weight(weight_format)
    x, x_NI = activations(rows, unit.layout)
    size_NO = np.abs(x_NI) @ np.abs(weight.meaning_OI.T)
    difference_NO = np.abs(product(unit, weight, x) - x_NI @ weight.meaning_OI.T)
    assert (difference_NO / size_NO).max() < 3e-7


@pytest.mark.parametrize("weight_format", [Q8_0, Q4_0, Q4_1])
def test_a_row_has_the_same_bits_alone_and_among_others(unit: Unit, weight_format: int) -> None:
    weight = Weight(weight_format)
    x, _ = activations(21, unit.layout)
    together_NO = product(unit, weight, x)
    for row in range(x.rows):
        alone = Quantized.empty(1, BLOCKS * BLOCK, unit.layout)
        for ours, all_of_them in zip(alone.buffers(), x.buffers(), strict=True):
            ours[0, :, 0] = all_of_them[row // 16, :, row % 16]
        np.testing.assert_array_equal(product(unit, weight, alone)[0], together_NO[row])
