"""Which class defines which architecture."""

from collections.abc import Mapping
from typing import Final, Protocol

import torch

from netgain.models.causal_lm import CausalLM
from netgain.models.config import Architecture, ModelConfig
from netgain.models.llama import Llama
from netgain.ops.interface import Ops


class ModelFactory(Protocol):
    """Builds a model from its filled tensors, named as in `models.parameters`."""

    def __call__(
        self, config: ModelConfig, ops: Ops, tensors: Mapping[str, torch.Tensor]
    ) -> CausalLM:
        """Takes ownership of the tensors."""


MODELS: Final[Mapping[Architecture, ModelFactory]] = {Architecture.LLAMA: Llama}
