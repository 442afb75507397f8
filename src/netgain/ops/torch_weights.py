"""Matrices of the torch backend: float32, whatever the checkpoint holds.

Dimensions: O output features, I input features.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from netgain.ops.stored import StoredRows, to_float32
from netgain.ops.weights import MatrixSpec


@dataclass(frozen=True, slots=True)
class DenseWeight:
    """A `LinearWeight` of one floating-point number per weight."""

    weight_OI: torch.Tensor
    bias_O: torch.Tensor | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """`(O, I)`."""
        rows, columns = self.weight_OI.shape
        return rows, columns

    @property
    def stored_bytes(self) -> int:
        """Bytes of matrix and bias."""
        bias = 0 if self.bias_O is None else self.bias_O.nbytes
        return self.weight_OI.nbytes + bias


class DenseSink:
    """A `MatrixSink` that widens everything to float32."""

    def __init__(self, spec: MatrixSpec) -> None:
        self._weight_OI = torch.empty(spec.shape)
        self._values_OI = self._weight_OI.numpy()

    def write(self, rows: NDArray[np.int32], stored: StoredRows) -> None:
        """See `MatrixSink.write`."""
        self._values_OI[rows] = to_float32(stored.kind, stored.data)

    def finish(self, bias_O: NDArray[np.float32] | None) -> DenseWeight:
        """See `MatrixSink.finish`."""
        return DenseWeight(self._weight_OI, None if bias_O is None else torch.from_numpy(bias_O))
