"""Sums by group."""

import numpy as np

from netgain.lab.metrics.columns import FloatArray, IntArray


def sums(groups: IntArray, amounts: FloatArray, count: int) -> FloatArray:
    """[count] the sum of each group's amounts; groups are numbers below `count`."""
    return np.asarray(np.bincount(groups, amounts, minlength=count), dtype=np.float64)
