"""What an executor keeps of requests whose draws take more than a few numbers.

Dimensions: A biased, B banned and C seen tokens, N rows, E hidden.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from netgain.engine.step import NewRequest
from netgain.ops.draws import Shaping

_NO_IDS: Final = np.empty(0, np.int32)
_NO_BIAS: Final = np.empty(0, np.float32)
_LEAST_REPETITION: Final = 1e-30
"""Below, dividing by it gives infinities in float32."""


class TokenCounts:
    """How often each token of a prompt and its answer is in the answer; grows by a token a step."""

    def __init__(self, prompt: Sequence[int], answer: Sequence[int]) -> None:
        ids: dict[int, int] = {}
        for token in prompt:
            ids.setdefault(token, len(ids))
        self._places = ids
        self._ids_C = np.zeros(max(64, 2 * len(ids)), np.int32)
        self._counts_C = np.zeros(len(self._ids_C), np.int32)
        self._ids_C[: len(ids)] = list(ids)
        for token in answer:
            self.add(token)

    def add(self, token: int) -> None:
        """One more token of the answer."""
        place = self._places.setdefault(token, len(self._places))
        if place == len(self._ids_C):
            self._ids_C = np.concatenate([self._ids_C, np.zeros_like(self._ids_C)])
            self._counts_C = np.concatenate([self._counts_C, np.zeros_like(self._counts_C)])
        self._ids_C[place] = token
        self._counts_C[place] += 1

    @property
    def ids(self) -> NDArray[np.int32]:
        """The distinct tokens `[C]`, in the order of their first appearance."""
        return self._ids_C[: len(self._places)]

    @property
    def counts(self) -> NDArray[np.int32]:
        """How often each is in the answer: `[C]`."""
        return self._counts_C[: len(self._places)]


class SamplingState:
    """One request's bias, bans, counts, and what else it wants of its rows.

    `tops`, `prompt_tops`: alternatives wanted for each token, or prompt token; -1 for no score.
    `pooling`: whether the hidden states of the prompt are to be pooled.
    """

    __slots__ = (
        "_ban_until",
        "_banned_ids",
        "_bias",
        "_bias_ids",
        "_counts",
        "_hidden_sum",
        "_sampling",
        "pooling",
        "prompt_tokens",
        "prompt_tops",
        "tops",
    )

    def __init__(self, new: NewRequest) -> None:
        sampling = new.sampling
        self._sampling = sampling
        self.prompt_tokens = new.prompt_tokens
        self.pooling = new.pooling
        self._hidden_sum: NDArray[np.float64] | None = None
        self.tops = -1 if sampling.logprobs is None else sampling.logprobs
        self.prompt_tops = -1
        if new.score_prompt and sampling.prompt_logprobs is not None:
            self.prompt_tops = sampling.prompt_logprobs
        self._bias_ids, self._bias = _NO_IDS, _NO_BIAS
        if sampling.logit_bias:
            self._bias_ids = np.array([token for token, _ in sampling.logit_bias], np.int32)
            self._bias = np.array([bias for _, bias in sampling.logit_bias], np.float32)
        self._banned_ids = np.array(new.banned_ids, np.int32) if new.banned_ids else _NO_IDS
        self._ban_until = new.prompt_tokens + sampling.min_tokens if new.banned_ids else 0
        self._counts: TokenCounts | None = None
        if sampling.penalises:
            prompt = new.tokens[: new.prompt_tokens] if sampling.repetition_penalty != 1.0 else ()
            self._counts = TokenCounts(prompt, new.tokens[new.prompt_tokens :])

    def append(self, token: int) -> None:
        """The request's next token was drawn."""
        if self._counts is not None:
            self._counts.add(token)

    def pool(self, hidden_NE: NDArray[np.float32], end: int) -> tuple[float, ...] | None:
        """Takes the next positions' hidden states, up to `end`; the embedding after the last."""
        sum_E = hidden_NE.sum(0, dtype=np.float64)
        if self._hidden_sum is not None:
            sum_E += self._hidden_sum
        self._hidden_sum = sum_E
        if end < self.prompt_tokens:
            return None
        # Dividing by the count first would change nothing but its length.
        length = float(np.linalg.norm(sum_E))
        unit_E = (sum_E / length if length else sum_E).astype(np.float32)
        return tuple(unit_E.tolist())

    def shaping(self, row: int, position: int) -> Shaping | None:
        """For the draw of the token at `position`; None where nothing is to be done.

        Points into the counts: of use until the next `append`.
        """
        banned_ids = self._banned_ids if position < self._ban_until else _NO_IDS
        counts, sampling = self._counts, self._sampling
        if counts is None:
            if not len(banned_ids) and not len(self._bias_ids):
                return None
            return Shaping(row, self._bias_ids, self._bias, banned_ids, _NO_IDS, _NO_IDS)
        return Shaping(
            row,
            self._bias_ids,
            self._bias,
            banned_ids,
            counts.ids,
            counts.counts,
            max(sampling.repetition_penalty, _LEAST_REPETITION),
            sampling.frequency_penalty,
            sampling.presence_penalty,
        )
