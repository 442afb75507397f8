"""Quantiles of weighted values, the way numpy's linear method gives those of plain ones."""

from dataclasses import dataclass

import numpy as np

from netgain.lab.metrics.columns import FloatArray


@dataclass(frozen=True, slots=True)
class WeightedSample:
    """Values in ascending order with cumulative weights; one of weight k stands for k values."""

    values: FloatArray
    cumulative: FloatArray

    @classmethod
    def of(cls, values: FloatArray, weights: FloatArray | None = None) -> "WeightedSample":
        """Sorts; without `weights` each value counts once."""
        if weights is None or bool(np.all(weights == 1)):
            return cls(np.sort(values), np.arange(1.0, len(values) + 1))
        order = np.argsort(values)
        return cls(values[order], np.cumsum(weights[order]))

    @property
    def size(self) -> float:
        """How many values it stands for."""
        return float(self.cumulative[-1]) if len(self.cumulative) else 0.0

    def quantile(self, probability: float) -> float:
        """`np.quantile` of the values repeated by their weights, without repeating them."""
        place = probability * max(self.size - 1, 0.0)
        below = np.floor(place)
        low, high = self._at(below), self._at(min(below + 1, self.size - 1))
        return float(low + (high - low) * (place - below))

    def _at(self, place: float) -> float:
        index = int(np.searchsorted(self.cumulative, place, side="right"))
        return float(self.values[min(index, len(self.values) - 1)])
