"""Weights of linear layers. The storage format belongs to the weight, not to the model.

Dimensions: O output features, I input features.
"""

from dataclasses import dataclass
from typing import Protocol

import torch


class LinearWeight(Protocol):
    """A matrix `[O, I]`, in whatever format, with an optional bias."""

    @property
    def shape(self) -> tuple[int, int]:
        """`(O, I)`."""

    @property
    def stored_bytes(self) -> int:
        """Bytes that one use of the whole weight reads."""


@dataclass(frozen=True, slots=True)
class DenseWeight:
    """One floating-point number per weight."""

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
