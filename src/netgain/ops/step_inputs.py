"""The flat, ragged arrays that one forward pass reads: numpy, so that any backend takes them.

Dimensions: T tokens of the step, R slices (one per request), G KV groups, M most blocks of a slice,
N rows that need logits.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class GroupInputs:
    """Where one KV group's keys and values are read and written.

    `block_tables_RM`: int32 block ids, C-contiguous, padded with the scratch block 0. The key and
    value of position p of slice r go to block `block_tables_RM[r, p // S]`, slot `p % S`.
    """

    block_tables_RM: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class StepInputs:
    """One step, flat: no padding to the longest slice.

    `token_ids_T`, `positions_T`: int32; positions of a slice are consecutive. `query_starts`: int32
    `[R + 1]`, slice r owns rows `query_starts[r]:query_starts[r + 1]`. `context_lens_R`: int32, per
    slice, tokens with KV once this step's own are written (first position + count).
    `logit_rows_N`: int32 rows of T, ascending. All arrays are C-contiguous.
    """

    token_ids_T: NDArray[np.int32]
    positions_T: NDArray[np.int32]
    query_starts: NDArray[np.int32]
    context_lens_R: NDArray[np.int32]
    groups: tuple[GroupInputs, ...]
    logit_rows_N: NDArray[np.int32]
