"""The tensors of a GGUF file."""

from pathlib import Path

from netgain.errors import ModelError
from netgain.models.gguf_file import GGUFHeader, TensorInfo
from netgain.models.gguf_names import hugging_face_name
from netgain.models.stored_tensors import StoredTensor, StoredTensors
from netgain.ops.stored_type import StoredType


def gguf_tensors(header: GGUFHeader) -> StoredTensors:
    """Where each tensor lies. Raises `ModelError` for a format that cannot be read."""
    return StoredTensors(
        {
            hugging_face_name(name): gguf_tensor(info, header.path)
            for name, info in header.tensors.items()
        },
        interleaved_rotary=True,
    )


def gguf_tensor(info: TensorInfo, path: Path) -> StoredTensor:
    """One tensor of the file. Raises `ModelError` for a format that cannot be read."""
    try:
        kind = StoredType(info.type_id)
    except ValueError as error:
        raise ModelError(
            f"{path}: tensor {info.name} has type {info.type_id}, which is not supported"
        ) from error
    return StoredTensor(info.name, path, kind, info.shape, info.offset)
