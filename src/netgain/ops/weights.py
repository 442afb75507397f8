"""Weights of linear layers. The storage format belongs to the weight, not to the model.

Dimensions: O output features, I input features.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from netgain.ops.stored import StoredRows, StoredType


class LinearWeight(Protocol):
    """A matrix `[O, I]` in whatever format its backend keeps it, with an optional bias."""

    @property
    def shape(self) -> tuple[int, int]:
        """`(O, I)`."""

    @property
    def stored_bytes(self) -> int:
        """Bytes that one use of the whole weight reads."""


@dataclass(frozen=True, slots=True)
class MatrixSpec:
    """A matrix that is about to be loaded, or counted.

    `name`: the parameter's, for errors. `shape`: `(O, I)`. `stored`: the formats its rows come in,
    each once; several where projections of different formats are stacked. `embedding`: rows are
    looked up by token id (and, where the head is tied, multiplied with as well). `gated`: the first
    half of the rows is the gate of a gated layer, the second half goes beside it.
    """

    name: str
    shape: tuple[int, int]
    stored: tuple[StoredType, ...]
    has_bias: bool = False
    embedding: bool = False
    gated: bool = False


class MatrixSink(Protocol):
    """A matrix in the making."""

    def write(self, rows: NDArray[np.int32], stored: StoredRows) -> None:
        """Takes the stored rows in; the i-th becomes row `rows[i]` of the matrix.

        Every row is written once, in chunks of any size and order; nothing of `stored` is kept.
        """

    def finish(self, bias_O: NDArray[np.float32] | None) -> LinearWeight:
        """The whole matrix; the sink is spent."""
