"""How each row's token is chosen, as flat arrays.

Dimensions: N rows that a token is drawn for, V vocabulary, A biased, B banned and C seen tokens of
one row.

A random choice needs one uniform number, drawn from a counter-based generator keyed by the
request's seed and the token's position: the same request draws the same numbers alone, batched,
after preemption, or when a step's result is thrown away.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Shaping:
    """What one row's logits go through before anything is drawn, in this order, in float32.

    `bias` is added; what is banned becomes -infinity; of seen tokens a logit above 0 is divided by
    `repetition` and any other multiplied by it (https://arxiv.org/abs/1909.05858, section 4.1),
    and of those seen in the answer (count above 0; 0 is a token of the prompt only)
    `frequency` times the count and then `presence` are taken off (OpenAI's definition).

    `row`: index among the draws. Ids are int32 and distinct within each array, counts int32,
    biases float32; ids outside the vocabulary are passed over.
    """

    row: int
    bias_ids_A: NDArray[np.int32]
    bias_A: NDArray[np.float32]
    banned_ids_B: NDArray[np.int32]
    seen_ids_C: NDArray[np.int32]
    seen_counts_C: NDArray[np.int32]
    repetition: float = 1.0
    frequency: float = 0.0
    presence: float = 0.0


@dataclass(frozen=True, slots=True)
class Draws:
    """One draw per row of logits.

    Every backend draws thus: the row's logits are shaped (see `Shaping`) and divided by the
    temperature; the `top_k` largest stay (of equal ones, those of lower id); of these the smallest
    set of the likeliest whose probability, among the `top_k`, reaches `top_p` (again lower ids
    first); of these the ones at least `min_p` times as likely as the likeliest, which is to say
    those whose logit is at least `largest + temperature * ln(min_p)` in double precision. The token
    is the first in *vocabulary order* at which the kept tokens' running probability exceeds
    `uniform(seed, position)` times their sum.

    `temperatures_N`: float32, 0 for the largest logit once shaped (of equal ones, the lowest id);
    the other arrays do not matter then. `top_k_N`: int32, 0 for all. `top_p_N`: float32 in (0, 1].
    `seeds_N`: uint64. `positions_N`: int64, the token's index in its sequence. `min_p_N`: float32
    in [0, 1], None for 0 everywhere. `shapings`: for the rows that have one, in their order.
    """

    temperatures_N: NDArray[np.float32]
    top_k_N: NDArray[np.int32]
    top_p_N: NDArray[np.float32]
    seeds_N: NDArray[np.uint64]
    positions_N: NDArray[np.int64]
    min_p_N: NDArray[np.float32] | None = None
    shapings: tuple[Shaping, ...] = ()

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
