"""Rotary frequencies of a config, in the arithmetic of the reference implementation."""

import math

import torch

from netgain.models.config import LinearScaling, Llama3Scaling, Rope


def inverse_frequencies(rope: Rope, head_dim: int) -> torch.Tensor:
    """Radians per position for each pair of dimensions: float32 `[head_dim / 2]`.

    Source: https://arxiv.org/abs/2104.09864. Computed in float32 as `transformers` does: at
    position 8000 a frequency rounded otherwise would show in the logits.
    """
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim
    frequencies = 1.0 / (rope.theta**exponents)
    match rope.scaling:
        case None:
            return frequencies
        case LinearScaling(factor):
            return frequencies / factor
        case Llama3Scaling() as scaling:
            return _llama3(frequencies, scaling)


def _llama3(frequencies: torch.Tensor, scaling: Llama3Scaling) -> torch.Tensor:
    low, high = scaling.low_frequency_factor, scaling.high_frequency_factor
    wavelengths = 2 * math.pi / frequencies
    long = wavelengths > scaling.original_positions / low
    short = wavelengths < scaling.original_positions / high
    smooth = (scaling.original_positions / wavelengths - low) / (high - low)
    ramp = (1 - smooth) * frequencies / scaling.factor + smooth * frequencies
    return torch.where(long, frequencies / scaling.factor, torch.where(short, frequencies, ramp))
