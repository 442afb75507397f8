"""How products are cut into chunks for threads."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.ops.native_build import INSTRUCTION_SETS, Unit, built_unit

Q4_1, FP32 = 5, 0
MOST_ROWS, CHUNKS = 512, 2


@pytest.fixture(scope="module")
def unit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Unit]:
    plain = next(isa for isa in INSTRUCTION_SETS if isa.name == "plain")
    with built_unit("linear_unit", plain, tmp_path_factory.mktemp("native")) as made:
        yield made


class Cut:
    def __init__(
        self,
        unit: Unit,
        units: int,
        rows: int,
        *,
        columns: int = 576,
        unit_tiles: int = 1,
        together: int = 2,
        threads: int = 2,
        weights: int = Q4_1,
        products_per_ns: int = 500,
    ) -> None:
        sizes = [weights, columns, units, unit_tiles, together, rows, MOST_ROWS, CHUNKS]
        numbers, firsts = np.zeros(3, np.int64), np.zeros(units + 2, np.int64)
        unit.call("divide", np.array([*sizes, products_per_ns, threads], np.int64), numbers, firsts)
        self.row_chunk, self.row_chunks, self.unit_chunks = map(int, numbers)
        self.firsts = firsts[: self.unit_chunks + 1]

    @property
    def chunks(self) -> int:
        return self.row_chunks * self.unit_chunks


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    units=st.integers(1, 70),
    rows=st.integers(1, 3000),
    together=st.sampled_from([1, 2]),
    threads=st.integers(1, 16),
    columns=st.sampled_from([32, 576, 11008]),
    weights=st.sampled_from([Q4_1, FP32]),
)
def test_chunks_hold_every_unit_and_row_once(
    unit: Unit, units: int, rows: int, together: int, threads: int, columns: int, weights: int
) -> None:
    cut = Cut(
        unit,
        units,
        rows,
        columns=columns,
        together=together,
        threads=threads,
        weights=weights,
    )
    assert cut.firsts[0] == 0
    assert cut.firsts[-1] == units
    assert (np.diff(cut.firsts) > 0).all()
    assert (cut.firsts[:-1] % together == 0).all()
    # All but a last, short one differ by what stays together.
    lengths = -(-np.diff(cut.firsts) // together)
    assert lengths.max() - lengths.min() <= 1
    assert (cut.row_chunks - 1) * cut.row_chunk < rows <= cut.row_chunks * cut.row_chunk
    assert cut.row_chunks == 1 or cut.row_chunk % 16 == 0
    assert cut.row_chunk <= MOST_ROWS


@pytest.mark.parametrize("rows", [1, 16, 200, 256, 271, 400, 512, 600, 2048])
@pytest.mark.parametrize("threads", [2, 3, 4])
def test_no_thread_waits_for_an_odd_chunk(unit: Unit, rows: int, threads: int) -> None:
    for units, columns in [(60, 576), (36, 576), (36, 1536)]:
        cut = Cut(unit, units, rows, columns=columns, threads=threads)
        assert cut.chunks % threads == 0


def test_what_is_too_little_for_two_threads_goes_to_one(unit: Unit) -> None:
    assert Cut(unit, units=2, rows=1, columns=32).chunks == 1


def test_one_row_costs_reading_the_weights(unit: Unit) -> None:
    """4 tiles of 32 blocks take 5 us to read: not worth four chunks, as 16 rows would be."""
    few = {"units": 4, "columns": 1024, "together": 1, "products_per_ns": 100}
    assert Cut(unit, rows=1, **few).chunks == 2
    assert Cut(unit, rows=16, **few).chunks == 4
