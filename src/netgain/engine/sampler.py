"""From logits to tokens.

Dimensions: N rows, V vocabulary.

A random choice needs one uniform number, drawn from a counter-based generator keyed by the
request's seed and the token's position: the same request draws the same numbers alone, batched,
after preemption, or when a step's result is thrown away.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from netgain.engine.sampling_params import SamplingParams


@dataclass(frozen=True, slots=True)
class SamplingRow:
    """How to choose one row's token; `position` is the token's index in its sequence."""

    params: SamplingParams
    seed: int
    position: int


def sample(logits_NV: torch.Tensor, rows: Sequence[SamplingRow]) -> list[int]:
    """One token per row; each row depends on its own logits only."""
    if not rows:
        return []
    tokens: list[int] = logits_NV.argmax(-1).tolist()
    for index, row in enumerate(rows):
        if not row.params.greedy:
            tokens[index] = _draw(logits_NV[index], row)
    return tokens


def uniform(seed: int, position: int) -> float:
    """The number in [0, 1) that belongs to this seed and position."""
    bits = np.random.Philox(key=seed % (1 << 64), counter=position)
    return float(np.random.Generator(bits).random())


def _draw(logits_V: torch.Tensor, row: SamplingRow) -> int:
    """Inverse transform sampling over the kept tokens.

    Order: temperature, then the `top_k` largest, then the smallest set of the rest whose
    probability reaches `top_p`.
    """
    params = row.params
    scaled_V = logits_V / params.temperature
    vocabulary = scaled_V.shape[0]
    kept = min(params.top_k, vocabulary) if params.top_k > 0 else vocabulary
    ids: torch.Tensor | None = None
    if kept < vocabulary:
        scaled_V, ids = scaled_V.topk(kept)
    elif params.top_p < 1.0:
        scaled_V, ids = scaled_V.sort(descending=True, stable=True)
    probabilities = torch.softmax(scaled_V.double(), -1)
    cumulative = probabilities.cumsum(-1)
    if params.top_p < 1.0:
        # Token i stays while what lies before it is short of top_p; the first always stays.
        count = int(torch.searchsorted(cumulative, params.top_p)) + 1
        cumulative = cumulative[: min(count, kept)]
    target = uniform(row.seed, row.position) * float(cumulative[-1])
    # right=True steps over tokens of probability 0.
    choice = int(torch.searchsorted(cumulative, target, right=True))
    choice = min(choice, cumulative.shape[0] - 1)
    return choice if ids is None else int(ids[choice])
