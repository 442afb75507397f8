"""The seam between a file format and the loader.

A destination is a float32 tensor, contiguous, of the piece's shape.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from netgain.models.load_timings import LoadTimings
from netgain.models.parameters import Piece


@dataclass(frozen=True, slots=True)
class Filling:
    """A piece and the memory it goes to."""

    piece: Piece
    destination: torch.Tensor


class TensorSource(Protocol):
    """Tensors of a checkpoint by their Hugging Face names."""

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Every tensor of the checkpoint."""

    def fill(self, fillings: Sequence[Filling], timings: LoadTimings) -> None:
        """Reads and converts every piece; shapes have been checked.

        Raises `ModelError` for data that is cut short or of an unsupported type.
        """
