"""What an engine needs from a model."""

from typing import Protocol

from netgain.models.config import ModelConfig
from netgain.ops.interface import StepModel


class CausalLM(StepModel, Protocol):
    """A decoder whose keys and values lie in paged records that a backend owns.

    Its attention names groups by their index in `config.kv_groups`.
    """

    @property
    def config(self) -> ModelConfig:
        """What the checkpoint says about the model."""
