"""From logits to tokens, as `ops.draws` defines it.

Dimensions: N rows, V vocabulary, C tokens that may be chosen.
"""

from typing import Final

import numpy as np
import torch

from netgain.ops.draws import Draws, uniform

_FEW: Final = 512
"""Tokens looked at first for `top_p`."""


def choose(logits_NV: torch.Tensor, draws: Draws) -> list[int]:
    """One token per row; each row depends on its own logits only."""
    if not len(draws):
        return []
    # Of equal logits, argmax takes the first.
    tokens: list[int] = logits_NV.argmax(-1).tolist()
    for index in np.flatnonzero(draws.temperatures_N).tolist():
        tokens[index] = draw(
            logits_NV[index],
            float(draws.temperatures_N[index]),
            int(draws.top_k_N[index]),
            float(draws.top_p_N[index]),
            uniform(int(draws.seeds_N[index]), int(draws.positions_N[index])),
        )
    return tokens


def draw(
    logits_V: torch.Tensor, temperature: float, top_k: int, top_p: float, number: float
) -> int:
    """The token that `number` in [0, 1) falls on."""
    scaled_V = logits_V / temperature
    if 0 < top_k < scaled_V.shape[0]:
        ids_C = _largest(scaled_V, top_k)
        probabilities_C = torch.softmax(scaled_V[ids_C].double(), -1)
        ids_C, probabilities_C = _likeliest(ids_C, probabilities_C, top_p)
    elif top_p < 1.0:
        probabilities_V = torch.softmax(scaled_V.double(), -1)
        ids_C = _few(scaled_V, probabilities_V, top_p)
        ids_C, probabilities_C = _likeliest(ids_C, probabilities_V[ids_C], top_p)
    else:
        return _inverse(torch.softmax(scaled_V.double(), -1), number)
    ids_C, order_C = ids_C.sort()
    return int(ids_C[_inverse(probabilities_C[order_C], number)])


def _inverse(probabilities_C: torch.Tensor, number: float) -> int:
    cumulative_C = probabilities_C.cumsum(-1)
    total = cumulative_C[-1:]
    # right=True steps over tokens of probability 0; so does the limit, where rounding makes one.
    choice = int(torch.searchsorted(cumulative_C, total * number, right=True))
    return min(choice, int(torch.searchsorted(cumulative_C, total)))


def _largest(scaled_V: torch.Tensor, count: int) -> torch.Tensor:
    """Ids of the `count` largest, likeliest first; of equal ones, lower ids come first."""
    least = scaled_V.topk(count).values[-1]
    ids_C = (scaled_V >= least).nonzero().squeeze(1)
    order_C = scaled_V[ids_C].sort(descending=True, stable=True).indices
    return ids_C[order_C[:count]]


def _few(scaled_V: torch.Tensor, probabilities_V: torch.Tensor, top_p: float) -> torch.Tensor:
    """Ids of the likeliest, sorted, at least until they reach `top_p`.

    Mostly a few dozen tokens do, and finding them takes a tenth of sorting a vocabulary.
    """
    if scaled_V.shape[0] > _FEW:
        ids_C = _largest(scaled_V, _FEW)
        if float(probabilities_V[ids_C].sum()) >= top_p:
            return ids_C
    return scaled_V.sort(descending=True, stable=True).indices


def _likeliest(
    ids_C: torch.Tensor, probabilities_C: torch.Tensor, top_p: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Of sorted tokens the first until `top_p` is reached; at least one."""
    if top_p >= 1.0:
        return ids_C, probabilities_C
    # A token stays while what lies before it is short of top_p.
    limit = torch.tensor([top_p], dtype=torch.float64)
    count = int(torch.searchsorted(probabilities_C.cumsum(-1), limit)) + 1
    return ids_C[:count], probabilities_C[:count]
