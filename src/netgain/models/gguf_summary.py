"""What a model file is, in two words: its architecture and the type of most of its weights."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from netgain.errors import ModelError
from netgain.models.gguf_file import read_header
from netgain.ops.stored_type import StoredType


@dataclass(frozen=True, slots=True)
class GGUFSummary:
    """`architecture` as the file names it; `quantisation` is the GGML type of most weights."""

    architecture: str
    quantisation: str


def summarise(path: Path) -> GGUFSummary | None:
    """Reads the header of a `.gguf` file; None for what is not one, or is broken."""
    if path.suffix != ".gguf" or not path.is_file():
        return None
    try:
        header = read_header(path)
    except ModelError:
        return None
    weights: Counter[int] = Counter()
    for tensor in header.tensors.values():
        weights[tensor.type_id] += tensor.elements
    most = max(weights, key=weights.__getitem__, default=0)
    return GGUFSummary(
        architecture=str(header.metadata.get("general.architecture", "unknown")),
        quantisation=_name(most),
    )


def _name(type_id: int) -> str:
    try:
        return StoredType(type_id).name
    except ValueError:
        return f"type {type_id}"
