"""From logits to tokens.

Dimensions: N rows, V vocabulary.

A random choice needs one uniform number, drawn from a counter-based generator keyed by the
request's seed and the token's position: the same request draws the same numbers alone, batched,
after preemption, or when a step's result is thrown away.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch

from netgain.engine.sampling_params import SamplingParams

_FEW: Final = 512
"""Tokens looked at first for `top_p`."""


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
        cumulative = torch.softmax(scaled_V.double(), -1).cumsum(-1)
    elif params.top_p < 1.0:
        cumulative, ids = _likeliest(scaled_V, params.top_p)
    else:
        cumulative = torch.softmax(scaled_V.double(), -1).cumsum(-1)
    if params.top_p < 1.0:
        # Token i stays while what lies before it is short of top_p; the first always stays.
        count = int(torch.searchsorted(cumulative, params.top_p)) + 1
        cumulative = cumulative[: min(count, kept)]
    target = uniform(row.seed, row.position) * float(cumulative[-1])
    # right=True steps over tokens of probability 0.
    choice = int(torch.searchsorted(cumulative, target, right=True))
    choice = min(choice, cumulative.shape[0] - 1)
    return choice if ids is None else int(ids[choice])


def _likeliest(scaled_V: torch.Tensor, top_p: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Cumulative probabilities and ids of the likeliest tokens, at least up to `top_p`.

    Mostly a few dozen tokens reach it, and finding them takes a tenth of sorting a vocabulary.
    """
    probabilities_V = torch.softmax(scaled_V.double(), -1)
    if scaled_V.shape[0] > _FEW:
        ids = scaled_V.topk(_FEW).indices
        cumulative = probabilities_V[ids].cumsum(-1)
        if float(cumulative[-1]) >= top_p:
            return cumulative, ids
    ids = scaled_V.argsort(descending=True, stable=True)
    return probabilities_V[ids].cumsum(-1), ids
