"""How each row's token is chosen, as flat arrays.

Dimensions: N rows that need logits, V vocabulary.

A random choice needs one uniform number, drawn from a counter-based generator keyed by the
request's seed and the token's position: the same request draws the same numbers alone, batched,
after preemption, or when a step's result is thrown away.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Draws:
    """One draw per row of logits.

    Every backend draws thus: logits are divided by the temperature; the `top_k` largest stay (of
    equal ones, those of lower id); of these the smallest set of the likeliest whose probability,
    among the `top_k`, reaches `top_p` (again lower ids first). The token is the first in
    *vocabulary order* at which the kept tokens' running probability exceeds `uniform(seed,
    position)` times their sum.

    `temperatures_N`: float32, 0 for the largest logit (of equal ones, the lowest id); the other
    arrays do not matter then. `top_k_N`: int32, 0 for all. `top_p_N`: float32 in (0, 1].
    `seeds_N`: uint64. `positions_N`: int64, the token's index in its sequence.
    """

    temperatures_N: NDArray[np.float32]
    top_k_N: NDArray[np.int32]
    top_p_N: NDArray[np.float32]
    seeds_N: NDArray[np.uint64]
    positions_N: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.temperatures_N)


def uniform(seed: int, position: int) -> float:
    """The number in [0, 1) that belongs to this seed and position.

    The upper 53 bits, over 2^53, of the first word that Philox-4x64-10
    (https://doi.org/10.1145/2063384.2063405) gives for key `(seed mod 2^64, 0)` once its counter,
    set to `(position, 0, 0, 0)`, has been incremented.
    """
    bits = np.random.Philox(key=seed % (1 << 64), counter=position)
    return float(np.random.Generator(bits).random())
