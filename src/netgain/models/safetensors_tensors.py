"""The tensors of safetensors files.

Format: https://github.com/huggingface/safetensors#format. The library checks each file; its own
reader maps it, and pages it has touched stay resident until the mapping goes.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from safetensors import SafetensorError, safe_open

from netgain.errors import ModelError
from netgain.models.stored_tensors import StoredTensor, StoredTensors
from netgain.ops.stored_type import StoredType

_TYPES: Final = {"F32": StoredType.F32, "F16": StoredType.F16, "BF16": StoredType.BF16}


def safetensors_tensors(files: Sequence[Path]) -> StoredTensors:
    """Where each tensor lies.

    Raises `ModelError` for a file that is not whole, or a type that cannot be read.
    """
    return StoredTensors(
        {tensor.name: tensor for path in files for tensor in _tensors(path)},
        interleaved_rotary=False,
    )


def header_bytes(path: Path) -> int:
    """Bytes before the first tensor's. Raises `ModelError` for a file that is not whole."""
    try:
        with safe_open(path, framework="numpy"):
            pass
        with path.open("rb") as file:
            return 8 + int.from_bytes(file.read(8), "little")
    except (OSError, SafetensorError) as error:
        raise ModelError(
            f"{path}: not a whole safetensors file ({error}); fetch it again"
        ) from error


def _tensors(path: Path) -> Iterator[StoredTensor]:
    begin = header_bytes(path)
    with path.open("rb") as file:
        file.seek(8)
        header = json.loads(file.read(begin - 8))
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        if entry["dtype"] not in _TYPES:
            raise ModelError(
                f"{path}: tensor {name} has type {entry['dtype']}, not one of {', '.join(_TYPES)}"
            )
        kind, offset = _TYPES[entry["dtype"]], begin + entry["data_offsets"][0]
        yield StoredTensor(name, path, kind, tuple(entry["shape"]), offset)
