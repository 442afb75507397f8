"""What a model file is, in two words: its architecture and the type of most of its weights."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from netgain.errors import ModelError
from netgain.models.gguf_file import read_header

# https://github.com/ggml-org/ggml/blob/master/include/ggml.h, enum ggml_type
_TYPE_NAMES: Final = {
    0: "F32",
    1: "F16",
    2: "Q4_0",
    3: "Q4_1",
    6: "Q5_0",
    7: "Q5_1",
    8: "Q8_0",
    10: "Q2_K",
    11: "Q3_K",
    12: "Q4_K",
    13: "Q5_K",
    14: "Q6_K",
    30: "BF16",
}


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
        quantisation=_TYPE_NAMES.get(most, f"type {most}"),
    )
