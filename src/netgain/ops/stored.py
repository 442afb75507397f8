"""Numbers as a checkpoint stores them.

Dimensions: O rows of a matrix.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netgain.ops.stored_type import StoredType as StoredType


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Some rows of one checkpoint tensor, as they lie in the file.

    `first_row`: index of the first of them in the tensor. `data`: uint8 `[rows, row bytes]`; valid
    only until the next rows are read, so whoever wants to keep it copies it.
    """

    first_row: int
    kind: StoredType
    data: NDArray[np.uint8]


def to_float32(kind: StoredType, data: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The numbers of stored rows `[O, row bytes]`: `[O, columns]`; may be a view of `data`."""
    match kind:
        case StoredType.F32:
            return data.view(np.float32)
        case StoredType.F16:
            return data.view(np.float16).astype(np.float32)
        case StoredType.BF16:
            return (data.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    # Only here: the package takes a tenth of a second to import.
    from gguf.constants import GGMLQuantizationType
    from gguf.quants import dequantize

    # One long row: the package works through rows in groups of sixteen, call by call.
    flat = dequantize(data.reshape(1, -1), GGMLQuantizationType(kind))
    values: NDArray[np.float32] = flat.reshape(data.shape[0], -1).astype(np.float32, copy=False)
    return values
