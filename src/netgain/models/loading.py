"""From a checkpoint to a model in memory, tensor by tensor, timed."""

from collections.abc import Mapping, Sequence

import torch

from netgain.errors import ModelError
from netgain.models.causal_lm import CausalLM
from netgain.models.checkpoint import Checkpoint
from netgain.models.config import ModelConfig
from netgain.models.gguf_tensors import GGUFTensors
from netgain.models.load_timings import LoadTimings
from netgain.models.parameters import Parameter, parameters
from netgain.models.registry import MODELS
from netgain.models.safetensors_tensors import SafetensorsTensors
from netgain.models.tensor_source import Filling, TensorSource
from netgain.ops.interface import Ops


def load_model(checkpoint: Checkpoint, ops: Ops) -> tuple[CausalLM, LoadTimings]:
    """Reads all weights as float32 and builds the model over `ops`.

    The timings hold `read` and `convert`; the caller adds the later parts. Raises `ModelError`
    for a tensor that is missing, unknown, of the wrong shape, or cut short.
    """
    timings = LoadTimings()
    config = checkpoint.config
    wanted = parameters(config)
    source = _source(checkpoint)
    _check(checkpoint, wanted, source.shapes)
    tensors = {parameter.name: torch.empty(parameter.shape) for parameter in wanted}
    source.fill(_fillings(wanted, tensors), timings)
    return MODELS[config.architecture](config, ops, tensors), timings


def _source(checkpoint: Checkpoint) -> TensorSource:
    if checkpoint.header is not None:
        return GGUFTensors(checkpoint.header)
    return SafetensorsTensors(checkpoint.weight_files)


def _check(
    checkpoint: Checkpoint, wanted: Sequence[Parameter], shapes: Mapping[str, tuple[int, ...]]
) -> None:
    pieces = {piece.source: piece for parameter in wanted for piece in parameter.pieces}
    missing = [name for name in pieces if name not in shapes]
    if missing:
        raise ModelError(f"{checkpoint.path}: {_list('missing', missing)}")
    extra = [name for name in shapes if name not in pieces and not _spare(name, checkpoint.config)]
    if extra:
        raise ModelError(f"{checkpoint.path}: {_list('unknown', extra)}")
    for name, piece in pieces.items():
        if shapes[name] != piece.shape:
            raise ModelError(
                f"{checkpoint.path}: tensor {name} has shape {shapes[name]}, "
                f"the config asks for {piece.shape}"
            )


def _list(problem: str, names: Sequence[str]) -> str:
    shown = ", ".join(names[:5])
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"{problem} tensors: {shown}{more}"


def _spare(name: str, config: ModelConfig) -> bool:
    """Tensors some exporters write though they follow from the others."""
    tied_head = config.tie_embeddings and name == "lm_head.weight"
    return tied_head or name.endswith("rotary_emb.inv_freq")


def _fillings(
    wanted: Sequence[Parameter], tensors: Mapping[str, torch.Tensor]
) -> tuple[Filling, ...]:
    return tuple(
        Filling(piece, tensors[parameter.name].narrow(0, piece.first_row, piece.shape[0]))
        for parameter in wanted
        for piece in parameter.pieces
    )
