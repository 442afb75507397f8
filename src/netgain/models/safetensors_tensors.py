"""Reads the tensors of safetensors files into float32 memory."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from safetensors import SafetensorError, safe_open

from netgain.errors import ModelError
from netgain.models.load_timings import LoadTimings, WeightPart
from netgain.models.tensor_source import Filling

_TYPES: Final = ("F32", "F16", "BF16")
_CHUNK_ELEMENTS: Final = 1 << 20
# The library maps the file; pages it has touched stay resident until the mapping goes.
_REOPEN_BYTES: Final = 32 << 20


class SafetensorsTensors:
    """A `TensorSource` over one or more files."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._files: dict[str, Path] = {}
        for path in files:
            with _opened(path), safe_open(path, framework="pt") as file:
                for name in file.keys():  # noqa: SIM118 - not a mapping
                    view = file.get_slice(name)
                    if view.get_dtype() not in _TYPES:
                        raise ModelError(
                            f"{path}: tensor {name} has type {view.get_dtype()}, "
                            f"not one of {', '.join(_TYPES)}"
                        )
                    self._shapes[name] = tuple(view.get_shape())
                    self._files[name] = path

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """See `TensorSource.shapes`."""
        return self._shapes

    def fill(self, fillings: Sequence[Filling], timings: LoadTimings) -> None:
        """See `TensorSource.fill`."""
        by_file: dict[Path, list[Filling]] = {}
        for filling in fillings:
            by_file.setdefault(self._files[filling.piece.source], []).append(filling)
        for path, members in by_file.items():
            for batch in _batches(members):
                _fill(path, batch, timings)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Some rows of one tensor and where they go."""

    source: str
    first: int
    destination: torch.Tensor


def _batches(fillings: Sequence[Filling]) -> Iterator[list[_Rows]]:
    """What is read between two openings of the file."""
    batch: list[_Rows] = []
    pending = 0
    for filling in fillings:
        rows, elements = filling.destination.shape[0], filling.destination.numel()
        step = max(1, _CHUNK_ELEMENTS * rows // elements)
        for first in range(0, rows, step):
            destination = filling.destination[first : first + step]
            batch.append(_Rows(filling.piece.source, first, destination))
            pending += destination.nbytes
            if pending >= _REOPEN_BYTES:
                yield batch
                batch, pending = [], 0
    if batch:
        yield batch


def _fill(path: Path, batch: Sequence[_Rows], timings: LoadTimings) -> None:
    start = time.perf_counter()
    with _opened(path), safe_open(path, framework="pt") as file:
        for rows in batch:
            end = rows.first + rows.destination.shape[0]
            values = file.get_slice(rows.source)[rows.first : end]
            middle = time.perf_counter()
            rows.destination.copy_(values)
            timings.add(WeightPart.READ, middle - start)
            start = time.perf_counter()
            timings.add(WeightPart.CONVERT, start - middle)


@contextmanager
def _opened(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise ModelError(
            f"{path}: not a whole safetensors file ({error}); fetch it again"
        ) from error
