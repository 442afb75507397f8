"""Rotary frequencies of a config, in the arithmetic of the reference implementation."""

import math

import numpy as np
from numpy.typing import NDArray

from netgain.models.config import LinearScaling, Llama3Scaling, Rope


def inverse_frequencies(rope: Rope, head_dim: int) -> NDArray[np.float32]:
    """Radians per position for each pair of dimensions: float32 `[head_dim / 2]`.

    Source: https://arxiv.org/abs/2104.09864. Rounded to float32 where `transformers` rounds: at
    position 8000 a frequency rounded otherwise would show in the logits. Only the power is taken
    in float64 and rounded once; numpy's float32 power is an ulp off more often than torch's.
    """
    exponents = np.arange(0, head_dim, 2, dtype=np.float32) / np.float32(head_dim)
    powers = np.power(rope.theta, exponents.astype(np.float64)).astype(np.float32)
    frequencies = np.float32(1.0) / powers
    match rope.scaling:
        case None:
            return frequencies
        case LinearScaling(factor):
            return frequencies / np.float32(factor)
        case Llama3Scaling() as scaling:
            return _llama3(frequencies, scaling)


def _llama3(frequencies: NDArray[np.float32], scaling: Llama3Scaling) -> NDArray[np.float32]:
    low, high = np.float32(scaling.low_frequency_factor), np.float32(scaling.high_frequency_factor)
    factor, original = np.float32(scaling.factor), np.float32(scaling.original_positions)
    wavelengths = np.float32(2 * math.pi) / frequencies
    long = wavelengths > scaling.original_positions / scaling.low_frequency_factor
    short = wavelengths < scaling.original_positions / scaling.high_frequency_factor
    smooth = (original / wavelengths - low) / (high - low)
    ramp = (1 - smooth) * frequencies / factor + smooth * frequencies
    scaled = np.where(long, frequencies / factor, np.where(short, frequencies, ramp))
    return scaled.astype(np.float32)
