"""Memory for weights is zero, aligned and nobody else's."""

import numpy as np

from netgain.ops.cpu.memory import WeightMemory


def test_matrices_begin_at_cache_lines_and_do_not_overlap() -> None:
    memory = WeightMemory()
    taken = [memory.take(size) for size in (1, 64, 100, 40 << 20, 40 << 20, 3)]
    for number, array in enumerate(taken):
        assert array.ctypes.data % 64 == 0
        assert not array.any()
        array[:] = number + 1
    for number, array in enumerate(taken):
        assert (array == number + 1).all()


def test_a_matrix_may_be_larger_than_any_piece() -> None:
    assert WeightMemory().take(65 << 20).size == 65 << 20
    assert WeightMemory().take(0).size == 0


def test_a_matrix_outlives_the_memory_it_came_from() -> None:
    taken = WeightMemory().take(1000)
    np.testing.assert_array_equal(taken, np.zeros(1000, np.uint8))
