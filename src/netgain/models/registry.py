"""Which class defines which architecture."""

from collections.abc import Mapping
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from netgain.models.causal_lm import CausalLM
from netgain.models.config import Architecture, ModelConfig
from netgain.models.llama import Llama
from netgain.ops.weights import LinearWeight


class ModelFactory(Protocol):
    """Builds a model from its weights, named as in `models.parameters`."""

    def __call__(
        self,
        config: ModelConfig,
        matrices: Mapping[str, LinearWeight],
        vectors: Mapping[str, NDArray[np.float32]],
    ) -> CausalLM:
        """`vectors` holds norms; biases have gone into their matrices."""


MODELS: Final[Mapping[Architecture, ModelFactory]] = {Architecture.LLAMA: Llama}
