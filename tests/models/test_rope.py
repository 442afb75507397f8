"""Rotary frequencies, to the last bits those of `transformers`."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from netgain.models.config import LinearScaling, Llama3Scaling, Rope
from netgain.models.rope import inverse_frequencies


def units_apart(left: NDArray[np.float32], right: NDArray[np.float32]) -> int:
    """Most units in the last place between two arrays of positive numbers."""
    assert left.dtype == right.dtype == np.float32
    return int(np.abs(left.view(np.int32) - right.view(np.int32)).max())


@pytest.mark.parametrize("theta", [10000.0, 12345.6, 100000.0, 500000.0, 1000000.0])
def test_frequencies_are_those_of_torch_whose_power_is_two_units_off_at_most(theta: float) -> None:
    for head_dim in range(2, 258, 2):
        exponents = torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim
        expected = (1.0 / (theta**exponents)).numpy()
        assert units_apart(inverse_frequencies(Rope(theta), head_dim), expected) <= 2


@pytest.mark.parametrize("theta", [10000.0, 100000.0, 500000.0])
@pytest.mark.parametrize("head_dim", [32, 64, 128])
def test_frequencies_are_rounded_once_after_the_power_and_once_after_the_division(
    theta: float, head_dim: int
) -> None:
    found = inverse_frequencies(Rope(theta), head_dim)
    for index, frequency in enumerate(found):
        # These exponents are exact in float32.
        power = np.float32(theta ** (2 * index / head_dim))
        assert frequency == np.float32(1) / power


@pytest.mark.parametrize(
    ("rope", "settings"),
    [
        (Rope(50000.0, LinearScaling(4.0)), {"factor": 4.0}),
        (
            Rope(500000.0, Llama3Scaling(8.0, 1.0, 4.0, 8192)),
            {
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8192,
            },
        ),
    ],
    ids=["linear", "llama3"],
)
def test_scaled_frequencies_are_those_of_transformers(
    rope: Rope, settings: dict[str, float], request: pytest.FixtureRequest
) -> None:
    kind = request.node.callspec.id
    config = LlamaConfig(
        hidden_size=256,
        num_attention_heads=4,
        max_position_embeddings=1 << 17,
        rope_parameters={"rope_theta": rope.theta, "rope_type": kind, **settings},
    )
    expected, _ = ROPE_INIT_FUNCTIONS[kind](config, torch.device("cpu"))
    assert units_apart(inverse_frequencies(rope, 64), expected.numpy()) <= 4
