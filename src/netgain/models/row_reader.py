"""Reads a checkpoint's tensors without keeping any of it."""

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, Final, Self

import numpy as np

from netgain.errors import ModelError
from netgain.models.load_timings import LoadTimings, WeightPart
from netgain.models.stored_tensors import StoredTensor
from netgain.ops.stored import StoredRows

# Small enough that a chunk's float32 temporaries stay in the second-level cache.
_CHUNK_BYTES: Final = 64 << 10


class RowReader:
    """Reads tensors in chunks of rows through one small buffer: nothing of a file stays resident.

    A context manager; it holds the files open. One thread: two gain nothing measurable, page
    faults of the new memory and the interpreter lock take turns.
    """

    def __init__(self, timings: LoadTimings) -> None:
        self._timings = timings
        self._files: dict[Path, BinaryIO] = {}
        self._open = ExitStack()
        self._buffer = np.empty(_CHUNK_BYTES, np.uint8)

    def __enter__(self) -> Self:
        """Itself; the files are closed at the end."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes the files."""
        self._open.close()

    def rows(self, tensor: StoredTensor) -> Iterator[StoredRows]:
        """All rows in order; each chunk is valid until the next is asked for.

        Raises `ModelError` for a file that is cut short.
        """
        row_bytes, rows = tensor.row_bytes, tensor.rows
        step = max(1, _CHUNK_BYTES // row_bytes)
        if len(self._buffer) < step * row_bytes:
            self._buffer = np.empty(step * row_bytes, np.uint8)
        file = self._file(tensor.path)
        for first in range(0, rows, step):
            count = min(step, rows - first)
            data = self._buffer[: count * row_bytes]
            began = time.perf_counter()
            offset = tensor.offset + first * row_bytes
            if os.preadv(file.fileno(), [data.data], offset) != len(data):
                raise ModelError(
                    f"{tensor.path}: cut short at tensor {tensor.name}; fetch the file again"
                )
            self._timings.add(WeightPart.READ, time.perf_counter() - began)
            yield StoredRows(first, tensor.kind, data.reshape(count, row_bytes))

    def _file(self, path: Path) -> BinaryIO:
        if path not in self._files:
            try:
                self._files[path] = self._open.enter_context(path.open("rb", buffering=0))
            except OSError as error:
                raise ModelError(f"{path}: cannot be read: {error.strerror}") from error
        return self._files[path]
