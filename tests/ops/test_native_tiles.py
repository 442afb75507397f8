"""Products with quantised weights on a matrix unit, which takes both in bfloat16.

Dimensions: N rows, O output features, I input features, B blocks of 32 input features.
"""

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.ops.native_build import MATRIX_UNIT, Unit, built_unit
from tests.ops.native_formats import (
    BLOCK,
    Q4_0,
    Q4_1,
    Q8_0,
    TILE,
    Layout,
    Narrowed,
    nearest_bf16,
    packed_blocks,
)

FORMATS = [Q8_0, Q4_0, Q4_1]
OUTPUTS = 37
"""Three tiles, the last begun."""
FEATURES = 160
"""Of a gated layer: two units of 64 and one of 32."""


@pytest.fixture(scope="module")
def unit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Unit]:
    with built_unit("linear_unit", MATRIX_UNIT, tmp_path_factory.mktemp("native")) as made:
        yield made


@pytest.fixture(scope="module")
def rows_unit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Unit]:
    with built_unit("rows_unit", MATRIX_UNIT, tmp_path_factory.mktemp("native")) as made:
        yield made


class Weight:
    """Random blocks, the extremes of their codes among them."""

    def __init__(self, weight_format: int, blocks: int, outputs: int = OUTPUTS) -> None:
        random = np.random.default_rng(weight_format)
        low, high = (-128, 127) if weight_format == Q8_0 else (0, 15)
        self.format, self.columns = weight_format, blocks * BLOCK
        q_OBK = random.integers(low, high + 1, (outputs, blocks, BLOCK)).astype(np.int8)
        q_OBK[0], q_OBK[1] = low, high
        halves = random.uniform(-1, 1, (outputs, blocks, 1 + (weight_format == Q4_1)))
        halves_OBX = halves.astype(np.float16)
        self.packed = packed_blocks(halves_OBX, q_OBK, weight_format, Layout.BF16)
        wide = halves_OBX.astype(np.float64)
        offset = 8 if weight_format == Q4_0 else 0
        meaning_OBK = wide[..., :1] * (q_OBK - offset) + wide[..., 1:].sum(-1)[..., None]
        self.meaning_OI: NDArray[np.float64] = meaning_OBK.reshape(outputs, -1)


def activations(rows: int, columns: int, size: float = 1.0) -> NDArray[np.float32]:
    random = np.random.default_rng(rows)
    return nearest_bf16((size * random.standard_normal((rows, columns))).astype(np.float32))


def product(
    unit: Unit,
    weight: Weight,
    x: Narrowed,
    first_row: int = 0,
    bias_O: NDArray[np.float32] | None = None,
    residual: float = 0,
) -> NDArray[np.float32]:
    """Rows from `first_row` on; those before are left as they are, `residual`."""
    outputs = len(weight.meaning_OI)
    y_NO = np.full((x.rows, outputs), residual, np.float32)
    sizes = [weight.format, outputs, weight.columns, first_row, x.rows, x.pair_rows]
    padded = np.zeros(-(-outputs // TILE) * TILE, np.float32)
    if bias_O is not None:
        padded[:outputs] = bias_O
    unit.call("linear", weight.packed, np.array(sizes, np.int64), *x.buffers(), y_NO, padded)
    return y_NO


def weights_of(unit: Unit, weight: Weight, rows: int) -> NDArray[np.float64]:
    """What the unit multiplies with [O, I], by products with one at a time, `rows` in a call."""
    ones_II = np.eye(weight.columns, dtype=np.float32)
    columns = [
        product(unit, weight, Narrowed.of(ones_II[first : first + rows]))
        for first in range(0, weight.columns, rows)
    ]
    return np.concatenate(columns).T.astype(np.float64)


@pytest.mark.parametrize("weight_format", FORMATS)
@pytest.mark.parametrize("rows", [1, 16, 96])
def test_weights_are_what_they_stand_for_to_three_quarters_of_a_unit_in_the_last_place(
    unit: Unit, weight_format: int, rows: int
) -> None:
    weight = Weight(weight_format, blocks=3)
    found_OI = weights_of(unit, weight, rows)
    np.testing.assert_array_equal(found_OI, nearest_bf16(found_OI.astype(np.float32)))
    _, exponents = np.frexp(weight.meaning_OI)
    units_OI = np.ldexp(1.0, exponents - 8)
    # What a float32 loses where scale times code and minimum all but cancel.
    slack_OI = 1e-5 * np.abs(weight.meaning_OI).max()
    off_OI = (found_OI - weight.meaning_OI) / units_OI
    if weight_format != Q4_1:
        assert not found_OI[weight.meaning_OI == 0].any()
    assert (np.abs(off_OI) <= 0.75 + slack_OI / units_OI).all()
    # On average neither larger nor smaller: cutting off alone would make them 0.27 % smaller.
    large_OI = np.abs(weight.meaning_OI) > np.median(np.abs(weight.meaning_OI))
    large_OI[:2] = False  # one code each
    assert abs((found_OI[large_OI] / weight.meaning_OI[large_OI]).mean() - 1) < 6e-4


@pytest.mark.parametrize("weight_format", FORMATS)
@pytest.mark.parametrize("rows", [1, 2, 15, 16, 17, 32, 33, 70, 300])
@pytest.mark.parametrize("blocks", [1, 2, 3, 18, 130])
def test_products_are_exact_but_for_adding_up(
    unit: Unit, weight_format: int, rows: int, blocks: int
) -> None:
    weight = Weight(weight_format, blocks)
    weights_OI = weights_of(unit, weight, 96)
    x_NI = activations(rows, weight.columns)
    y_NO = product(unit, weight, Narrowed.of(x_NI)).astype(np.float64)
    exact_NO = x_NI.astype(np.float64) @ weights_OI.T
    size_NO = np.abs(x_NI).astype(np.float64) @ np.abs(weights_OI.T)
    assert (np.abs(y_NO - exact_NO) <= 6e-8 * (blocks + 17) * size_NO).all()


@pytest.mark.parametrize("weight_format", FORMATS)
@pytest.mark.parametrize(("blocks", "outputs"), [(3, OUTPUTS), (18, 16), (18, 64), (130, OUTPUTS)])
def test_a_row_has_the_same_bits_alone_and_among_others(
    unit: Unit, weight_format: int, blocks: int, outputs: int
) -> None:
    weight = Weight(weight_format, blocks, outputs)
    for rows in (530, 300, 70, 33, 16, 5):
        x_NI = activations(rows, weight.columns)
        together_NO = product(unit, weight, Narrowed.of(x_NI))
        for row in {*range(0, rows, 1 + rows // 16), rows - 1}:
            alone_NO = product(unit, weight, Narrowed.of(x_NI[row : row + 1]))
            np.testing.assert_array_equal(alone_NO[0], together_NO[row])
        for count in (2, 16):
            few_NO = product(unit, weight, Narrowed.of(x_NI[:count]))
            np.testing.assert_array_equal(few_NO, together_NO[:count])


@pytest.mark.parametrize("weight_format", FORMATS)
@pytest.mark.parametrize("rows", [1, 7, 40])
def test_denormal_numbers_are_zero_for_any_number_of_rows(
    unit: Unit, weight_format: int, rows: int
) -> None:
    weight = Weight(weight_format, 3)
    x = Narrowed.empty(rows, weight.columns)
    for row in range(rows):
        x.row(row)[...] = 0x0040  # 2 ** -127, times weights above one some would be normal
    assert not product(unit, weight, x).any()


@pytest.mark.parametrize("weight_format", FORMATS)
def test_the_rows_that_a_step_leaves_over_have_the_bits_of_the_others(
    unit: Unit, weight_format: int
) -> None:
    weight = Weight(weight_format, 3)
    x_NI = activations(525, weight.columns)
    whole_NO = product(unit, weight, Narrowed.of(x_NI))
    for end in (513, 521, 525):
        rest_NO = product(unit, weight, Narrowed.of(x_NI[:end]), first_row=512)
        np.testing.assert_array_equal(rest_NO[512:], whole_NO[512:end])
        assert not rest_NO[:512].any()
    # Fewer rows than a step has, of its hidden states.
    one_NO = product(unit, weight, Narrowed.of(x_NI[:1], pair_rows=9))
    np.testing.assert_array_equal(one_NO, whole_NO[:1])


@pytest.mark.parametrize("weight_format", FORMATS)
@pytest.mark.parametrize("rows", [1, 5, 40])
def test_bias_and_what_the_result_is_added_to(unit: Unit, weight_format: int, rows: int) -> None:
    weight = Weight(weight_format, 3)
    x = Narrowed.of(activations(rows, weight.columns))
    bias_O = np.arange(OUTPUTS, dtype=np.float32)
    found_NO = product(unit, weight, x, bias_O=bias_O, residual=0.5)
    expected_NO = np.float32(0.5) + (product(unit, weight, x) + bias_O)
    np.testing.assert_array_equal(found_NO, expected_NO)


def gate_bias() -> NDArray[np.float32]:
    return np.linspace(-1, 1, 2 * FEATURES, dtype=np.float32)


def gate(unit: Unit, weight: Weight, x: Narrowed) -> NDArray[np.float32]:
    out = Narrowed.empty(x.rows, FEATURES, x.pair_rows)
    sizes = np.array(
        [weight.format, 2 * FEATURES, weight.columns, x.rows, x.pair_rows, 1], np.int64
    )
    no_floats = np.zeros(1, np.float32)
    buffers = *x.buffers(), *out.buffers(), no_floats, gate_bias()
    unit.call("gated", weight.packed, sizes, *buffers)
    return out.by_row()


@pytest.mark.parametrize("weight_format", FORMATS)
@pytest.mark.parametrize("rows", [1, 7, 16, 21, 40])
def test_a_gated_layer_is_its_activated_gate_times_the_rest(
    unit: Unit, weight_format: int, rows: int
) -> None:
    weight = Weight(weight_format, 3, outputs=2 * FEATURES)
    x = Narrowed.of(activations(rows, weight.columns, size=2.0**-6))
    sums_NO = product(unit, weight, x, bias_O=gate_bias()).astype(np.float64)
    tiles_NTO = sums_NO.reshape(rows, -1, TILE)
    gate_NF, up_NF = (tiles_NTO[:, which::2].reshape(rows, -1) for which in (0, 1))
    expected_NF = gate_NF / (1 + np.exp(-gate_NF)) * up_NF
    y_NF = np.ones((rows, FEATURES), np.float32)
    sizes = np.array([weight.format, 2 * FEATURES, weight.columns, rows, x.pair_rows, 1], np.int64)
    nothing = Narrowed.empty(rows, FEATURES)
    unit.call("gated", weight.packed, sizes, *x.buffers(), *nothing.buffers(), y_NF, gate_bias())
    np.testing.assert_allclose(y_NF, expected_NF, rtol=1e-6)
    np.testing.assert_array_equal(gate(unit, weight, x), nearest_bf16(y_NF))


@pytest.mark.parametrize("weight_format", FORMATS)
def test_a_gated_row_has_the_same_bits_alone_and_among_others(
    unit: Unit, weight_format: int
) -> None:
    weight = Weight(weight_format, 3, outputs=2 * FEATURES)
    for rows in (41, 16, 5):
        x_NI = activations(rows, weight.columns, size=2.0**-6)
        together_NF = gate(unit, weight, Narrowed.of(x_NI))
        for row in range(0, rows, 1 + rows // 16):
            alone_NF = gate(unit, weight, Narrowed.of(x_NI[row : row + 1]))
            np.testing.assert_array_equal(alone_NF[0], together_NF[row])


@pytest.mark.parametrize("columns", [1, 31, 32, 33, 64, 100, 576])
@pytest.mark.parametrize("rows", [1, 5, 16, 40])
def test_rows_become_the_nearest_bfloat16_and_zeros_up_to_a_whole_block(
    rows_unit: Unit, rows: int, columns: int
) -> None:
    random = np.random.default_rng(columns)
    x_NI = random.standard_normal((rows, columns + 3)).astype(np.float32)
    x_NI[:, columns:] = np.nan  # would be seen
    out = Narrowed.empty(rows, columns)
    sizes = np.array([0, rows, columns + 3, columns, out.pair_rows, 1], np.int64)
    rows_unit.call("quantize", x_NI, sizes, *out.buffers())
    found_NI = out.by_row()
    np.testing.assert_array_equal(found_NI[:, :columns], nearest_bf16(x_NI[:, :columns].copy()))
    assert not found_NI[:, columns:].any()


@pytest.mark.parametrize("rows", [1, 5, 40])
def test_a_norm_for_the_unit_is_the_norm_in_bfloat16(rows_unit: Unit, rows: int) -> None:
    random = np.random.default_rng(rows)
    x_NI = random.standard_normal((rows, 200)).astype(np.float32)
    gain_I = random.standard_normal(200).astype(np.float32)
    eps = np.array([1e-5], np.float32)
    y_NI = np.zeros((rows, 200), np.float32)
    rows_unit.call("norm", x_NI, gain_I, eps, np.array([rows, 200, 200, 200], np.int64), y_NI)
    out = Narrowed.empty(rows, 200)
    sizes = np.array([rows, 200, 200, out.pair_rows, 1], np.int64)
    rows_unit.call("norm_quantized", x_NI, gain_I, eps, sizes, *out.buffers())
    np.testing.assert_array_equal(out.by_row()[:, :200], nearest_bf16(y_NI))
