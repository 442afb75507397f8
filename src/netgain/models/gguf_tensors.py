"""Reads and dequantises the tensors of a GGUF file into float32 memory.

Chunks of rows go through one small buffer, so that nothing of the file stays resident. One thread:
two gain nothing measurable: page faults of the new memory and the interpreter lock take turns.
"""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from gguf.constants import GGMLQuantizationType
from gguf.quants import dequantize
from numpy.typing import NDArray

from netgain.errors import ModelError
from netgain.models.checkpoint import stored_bytes
from netgain.models.gguf_file import GGUFHeader
from netgain.models.gguf_names import hugging_face_name
from netgain.models.load_timings import LoadTimings, WeightPart
from netgain.models.tensor_source import Filling

# Small enough that a chunk's float32 temporaries stay in the second-level cache.
_CHUNK_BYTES: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Some leading rows of one tensor: where they lie and where they go."""

    name: str
    kind: GGMLQuantizationType
    offset: int
    length: int
    destination: NDArray[np.float32]


class GGUFTensors:
    """A `TensorSource` over one GGUF file."""

    def __init__(self, header: GGUFHeader) -> None:
        self._path = header.path
        self._tensors = {hugging_face_name(name): info for name, info in header.tensors.items()}

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """See `TensorSource.shapes`."""
        return {name: info.shape for name, info in self._tensors.items()}

    def fill(self, fillings: Sequence[Filling], timings: LoadTimings) -> None:
        """See `TensorSource.fill`."""
        buffer = bytearray(_CHUNK_BYTES)
        with self._path.open("rb", buffering=0) as file:
            for filling in fillings:
                for chunk in self._chunks(filling):
                    if chunk.length > len(buffer):
                        buffer = bytearray(chunk.length)
                    data = memoryview(buffer)[: chunk.length]
                    start = time.perf_counter()
                    if os.preadv(file.fileno(), [data], chunk.offset) != chunk.length:
                        raise ModelError(
                            f"{self._path}: cut short at tensor {chunk.name}; fetch the file again"
                        )
                    middle = time.perf_counter()
                    _convert(chunk, data, self._path)
                    timings.add(WeightPart.READ, middle - start)
                    timings.add(WeightPart.CONVERT, time.perf_counter() - middle)

    def _chunks(self, filling: Filling) -> Iterator[_Chunk]:
        info = self._tensors[filling.piece.source]
        kind = GGMLQuantizationType(info.type_id)
        destination = filling.destination.numpy()
        heads = filling.piece.rotary_heads
        if heads:
            # GGUF interleaves the rows of a head for RoPE on pairs (2 i, 2 i + 1); ours pairs
            # (i, i + D/2). Undone by writing through a transposed view.
            rest = destination.shape[1:]
            destination = destination.reshape(heads, 2, -1, *rest).swapaxes(1, 2)
        length = stored_bytes(info, self._path)
        rows = destination.shape[0]
        # A vector is not cut: it may be one row of quantised blocks.
        step = max(1, _CHUNK_BYTES * rows // length) if len(info.shape) > 1 else rows
        for first in range(0, rows, step):
            end = min(rows, first + step)
            begin, stop = length * first // rows, length * end // rows
            yield _Chunk(info.name, kind, info.offset + begin, stop - begin, destination[first:end])


def _convert(chunk: _Chunk, data: memoryview, path: Path) -> None:
    try:
        # One long row: the package works through rows in groups of sixteen, call by call.
        stored = np.frombuffer(data, np.uint8).reshape(1, -1)
        values = dequantize(stored, chunk.kind)
    except NotImplementedError as error:
        raise ModelError(
            f"{path}: tensor {chunk.name} has type {chunk.kind.name}, which cannot be dequantised"
        ) from error
    chunk.destination[...] = values.reshape(chunk.destination.shape)
