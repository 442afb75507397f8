"""What an executor needs from a model.

Dimensions: N rows that need logits, V vocabulary, B blocks, L layers of a KV group,
S slots of a block, K key-value heads, D head dim, 2 = key, value.
"""

from collections.abc import Sequence
from typing import Protocol

import torch

from netgain.models.config import ModelConfig
from netgain.ops.step_inputs import StepInputs


class CausalLM(Protocol):
    """A decoder whose keys and values live in paged records that the caller owns."""

    @property
    def config(self) -> ModelConfig:
        """What the checkpoint says about the model."""

    def forward(self, inputs: StepInputs, records_BL2KSD: Sequence[torch.Tensor]) -> torch.Tensor:
        """Runs one step, writes its keys and values, returns float32 logits `[N, V]`.

        One record tensor per KV group of `config.kv_groups`, in that order.
        """
