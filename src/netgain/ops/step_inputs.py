"""The flat, ragged arrays that one forward pass reads.

Dimensions: T tokens of the step, R slices (one per request), G KV groups, M most blocks of a slice,
N rows that need logits.
"""

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class GroupInputs:
    """Where one KV group's keys and values are read and written.

    `block_tables_RM`: int64 block ids, padded with the scratch block 0.
    `slot_blocks_T`, `slot_offsets_T`: int64 block and position inside it where each token's
    key and value go.
    """

    block_tables_RM: torch.Tensor
    slot_blocks_T: torch.Tensor
    slot_offsets_T: torch.Tensor


@dataclass(frozen=True, slots=True)
class StepInputs:
    """One step, flat: no padding to the longest slice.

    `token_ids_T`, `positions_T`: int64. `query_starts`: R + 1 host integers, slice r owns rows
    `query_starts[r]:query_starts[r + 1]`. `context_lens`: per slice, tokens with KV once this
    step's own are written (first position + count). `logit_rows_N`: int64 rows of T.
    """

    token_ids_T: torch.Tensor
    positions_T: torch.Tensor
    query_starts: tuple[int, ...]
    context_lens: tuple[int, ...]
    groups: tuple[GroupInputs, ...]
    logit_rows_N: torch.Tensor
