"""How far a row's logits move with the company it keeps: what `--numerics fast` gives up."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from netgain.ops.backend import StepRunner
from netgain.ops.step_inputs import GroupInputs, StepInputs

_ALONE_AT: Final = 12
"""The sequence alone is computed in two chunks, of which this is the first."""
_LENGTHS: Final = (24, 9, 17, 1)
"""Tokens of the sequence and of its company."""


def measure_divergence(
    runner: StepRunner, groups: int, block_tokens: int, pool_blocks: int, tokens: int, vocab: int
) -> float | None:
    """Largest difference between logits of one sequence alone, in two chunks, and batched, whole.

    `tokens`: most of a step. None where pool or step are too small to try. Leaves keys and values
    of made-up tokens in the pool's first blocks.
    """
    needed = [-(-length // block_tokens) for length in _LENGTHS]
    if sum(needed) > pool_blocks or sum(_LENGTHS) > tokens:
        return None
    firsts = np.cumsum([1, *needed[:-1]])
    tables_RM = np.zeros((len(needed), max(needed)), np.int32)
    for row, (first, count) in enumerate(zip(firsts, needed, strict=True)):
        tables_RM[row, :count] = np.arange(first, first + count)
    ids = [
        np.arange(7 + row, 7 + row + n, dtype=np.int32) % vocab for row, n in enumerate(_LENGTHS)
    ]

    def logits(slices: list[tuple[int, int, int]]) -> NDArray[np.float32]:
        """Of the first slice's rows; slices are (sequence, first position, end)."""
        rows = [row for row, _, _ in slices]
        counts = [end - begin for _, begin, end in slices]
        inputs = StepInputs(
            token_ids_T=np.concatenate([ids[row][begin:end] for row, begin, end in slices]),
            positions_T=np.concatenate(
                [np.arange(begin, end, dtype=np.int32) for _, begin, end in slices]
            ),
            query_starts=np.cumsum([0, *counts]).astype(np.int32),
            context_lens_R=np.array([end for _, _, end in slices], np.int32),
            groups=(GroupInputs(np.ascontiguousarray(tables_RM[rows])),) * groups,
            logit_rows_N=np.arange(counts[0], dtype=np.int32),
        )
        return runner.logits(inputs)

    alone = np.concatenate([logits([(0, 0, _ALONE_AT)]), logits([(0, _ALONE_AT, _LENGTHS[0])])])
    together = logits([(row, 0, length) for row, length in enumerate(_LENGTHS)])
    return float(np.abs(alone - together).max())
