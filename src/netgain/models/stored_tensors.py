"""Tensors of a checkpoint as they lie in its files, whatever the file format."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from netgain.errors import ModelError
from netgain.ops.stored_type import StoredType


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """One tensor: `shape` outermost first, `offset` in bytes from the file's begin."""

    name: str
    path: Path
    kind: StoredType
    shape: tuple[int, ...]
    offset: int

    @property
    def row_bytes(self) -> int:
        """Bytes of one row; a vector is one row.

        Raises `ModelError` if it does not divide into the format's blocks.
        """
        try:
            return self.kind.row_bytes(self.shape[-1])
        except (IndexError, ValueError) as error:
            raise ModelError(
                f"{self.path}: tensor {self.name} of shape {self.shape} does not divide into "
                f"blocks of {self.kind.block_elements}"
            ) from error

    @property
    def rows(self) -> int:
        """Rows of `row_bytes` each; 1 for a vector."""
        return math.prod(self.shape[:-1])

    @property
    def nbytes(self) -> int:
        """Bytes in the file."""
        return self.rows * self.row_bytes


@dataclass(frozen=True, slots=True)
class StoredTensors:
    """A checkpoint's tensors by their Hugging Face names.

    `interleaved_rotary`: the rows of query and key projections are in the order of a rotation that
    pairs dimensions (2 i, 2 i + 1), not (i, i + D/2).
    """

    tensors: Mapping[str, StoredTensor]
    interleaved_rotary: bool
