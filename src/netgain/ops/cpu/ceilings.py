"""What this machine could do at most with the kernels in use, measured. No torch."""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from netgain.errors import ConfigurationError
from netgain.ops.cpu.library import Library, Unavailable, load

_READ_BYTES: Final = 1 << 29
_CHUNKS: Final = 128
_LINE_BYTES: Final = 64
_LOOP_NS: Final = 20_000_000
"""Of all threads together: long against a fork-join, short against a neighbour's time slice."""
_FIRST_ROUNDS: Final = 200


@dataclass(frozen=True, slots=True)
class Ceilings:
    """Rates of all threads together.

    `read_bytes_s`: reading from memory, every byte once. `float_s`: float32 multiply-adds,
    and `product_s`: multiply-adds of two 8-bit numbers, in the widest instructions of `isa` that
    the kernels use, on registers only. A multiply-add counts once.
    """

    isa: str
    threads: int
    read_bytes_s: float
    float_s: float
    product_s: float

    def best(self, other: Self) -> Self:
        """The higher of each rate: whatever slows a ceiling down was not the machine."""
        return type(self)(
            self.isa,
            self.threads,
            max(self.read_bytes_s, other.read_bytes_s),
            max(self.float_s, other.float_s),
            max(self.product_s, other.product_s),
        )


class CeilingMeter:
    """Measures on threads of its own, which sleep in between.

    `read_bytes` are read from memory: by default more than the caches of most machines hold.
    Raises `ConfigurationError` where the native library is not there. `close` frees everything.
    """

    def __init__(self, threads: int, read_bytes: int = _READ_BYTES) -> None:
        library = load()
        if isinstance(library, Unavailable):
            raise ConfigurationError(f"ceilings need the native CPU library: {library.reason}")
        self._isa = library.isa
        self._threads = threads
        self._handle = _declare(library)
        self._pool = self._handle.ng_pool_create(threads, None, 0)
        if not self._pool:
            raise MemoryError(f"{threads} threads could not be started")
        # Ones: pages that nobody wrote to are all the same page of zeros.
        self._data: NDArray[np.uint8] = np.ones(read_bytes, np.uint8)

    def measure(self, tries: int = 6) -> Ceilings:
        """The best of some tries."""
        return Ceilings(
            self._isa,
            self._threads,
            max(self._read_s() for _ in range(tries)),
            max(self._multiply_s(0) for _ in range(tries)),
            max(self._multiply_s(1) for _ in range(tries)),
        )

    def close(self) -> None:
        """Ends the threads and frees the memory."""
        if self._pool:
            self._handle.ng_pool_destroy(self._pool)
        self._pool = None
        self._data = np.empty(0, np.uint8)

    def _read_s(self) -> float:
        each = self._data.nbytes // _CHUNKS // _LINE_BYTES * _LINE_BYTES
        spent: int = self._handle.ng_time_reading(self._pool, self._data.ctypes.data, _CHUNKS, each)
        return _CHUNKS * each / (spent / 1e9)

    def _multiply_s(self, of_bytes: int) -> float:
        done = ctypes.c_int64()

        def timed(rounds: int) -> int:
            spent: int = self._handle.ng_time_multiplying(
                self._pool, of_bytes, _CHUNKS, rounds, ctypes.byref(done)
            )
            if spent < 0:
                raise ConfigurationError(f"no ceiling was written for the {self._isa} kernels")
            return spent

        rounds = _long_enough(timed)
        spent = timed(rounds)
        return done.value / (spent / 1e9)


def _long_enough(timed: Callable[[int], int]) -> int:
    """Rounds that take about `_LOOP_NS`."""
    spent = max(1, min(timed(_FIRST_ROUNDS) for _ in range(3)))
    return max(_FIRST_ROUNDS, _FIRST_ROUNDS * _LOOP_NS // spent)


def _declare(library: Library) -> ctypes.CDLL:
    handle, pointer = library.handle, ctypes.c_void_p
    handle.ng_pool_create.restype = pointer
    handle.ng_pool_create.argtypes = (ctypes.c_int, pointer, ctypes.c_int)
    handle.ng_pool_destroy.restype = None
    handle.ng_pool_destroy.argtypes = (pointer,)
    handle.ng_time_reading.restype = ctypes.c_int64
    handle.ng_time_reading.argtypes = (pointer, pointer, ctypes.c_int, ctypes.c_int64)
    handle.ng_time_multiplying.restype = ctypes.c_int64
    handle.ng_time_multiplying.argtypes = (
        pointer,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int64,
        pointer,
    )
    return handle
