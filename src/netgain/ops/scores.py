"""What a step says of its rows beside the tokens: log-probabilities and hidden states.

Dimensions: N rows of `StepInputs.logit_rows_N`, which are, in this order: D drawn from, P whose
given token is scored, H whose hidden state is wanted; S = D + P; K most alternatives; E hidden.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is wanted beside the drawn tokens.

    `tops_S`: int32, how many alternatives of each row; -1 where the row is not scored.
    `targets_P`: int32, the tokens to score behind the drawn ones.
    """

    tops_S: NDArray[np.int32]
    targets_P: NDArray[np.int32]

    @property
    def most_tops(self) -> int:
        """K, at least 1."""
        return max(1, int(self.tops_S.max(initial=0)))


@dataclass(frozen=True, slots=True)
class Scores:
    """Of each scored row; what stands in the others' places means nothing.

    A log-probability is the log-softmax of the raw logits: before bias, bans, penalties and
    temperature, over the whole vocabulary (a natural logarithm, float32). A rank counts from 1; of
    equal logits the lower id comes first, in ranks as among the alternatives. The alternatives are
    the likeliest, in order; those beyond what was asked for, or beyond the vocabulary, have id -1.
    """

    logprobs_S: NDArray[np.float32]
    ranks_S: NDArray[np.int32]
    top_ids_SK: NDArray[np.int32]
    top_logprobs_SK: NDArray[np.float32]

    @staticmethod
    def room(rows: int, tops: int) -> "Scores":
        """Places to write to; all ids are -1."""
        return Scores(
            np.zeros(rows, np.float32),
            np.zeros(rows, np.int32),
            np.full((rows, tops), -1, np.int32),
            np.zeros((rows, tops), np.float32),
        )


@dataclass(frozen=True, slots=True)
class StepYield:
    """All that a step brought: the drawn tokens, scores, and hidden states (the final norm's)."""

    tokens: list[int]
    scores: Scores
    hidden_HE: NDArray[np.float32]
