"""From logits to tokens and log-probabilities, as `ops.draws` and `ops.scores` define them.

Dimensions: N rows, G rows of a group, V vocabulary, C tokens that may be chosen, S scored rows.
"""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from netgain.ops.draws import Draws, Shaping, uniform
from netgain.ops.scores import Scores

_FEW: Final = 512
"""Tokens looked at first for `top_p`."""


def choose(logits_NV: torch.Tensor, draws: Draws) -> list[int]:
    """One token per row; each row depends on its own logits only."""
    if not len(draws):
        return []
    # Of equal logits, argmax takes the first.
    tokens: list[int] = logits_NV.argmax(-1).tolist()
    shaped = {shaping.row: shape(logits_NV[shaping.row], shaping) for shaping in draws.shapings}
    for row, shaped_V in shaped.items():
        tokens[row] = int(shaped_V.argmax())
    for index in np.flatnonzero(draws.temperatures_N).tolist():
        logits_V = shaped.get(index, logits_NV[index])
        if not math.isfinite(logits_V[tokens[index]]):
            continue  # nothing is possible, or one token certain
        tokens[index] = draw(
            logits_V,
            float(draws.temperatures_N[index]),
            int(draws.top_k_N[index]),
            float(draws.top_p_N[index]),
            uniform(int(draws.seeds_N[index]), int(draws.positions_N[index])),
            0.0 if draws.min_p_N is None else float(draws.min_p_N[index]),
        )
    return tokens


def shape(logits_V: torch.Tensor, shaping: Shaping) -> torch.Tensor:
    """A copy of the row with its bias, bans and penalties; see `Shaping`."""
    logits_V = logits_V.clone()
    count = logits_V.shape[0]
    ids_A, inside_A = _within(shaping.bias_ids_A, count)
    logits_V[ids_A] += torch.from_numpy(shaping.bias_A)[inside_A]
    logits_V[_within(shaping.banned_ids_B, count)[0]] = -torch.inf
    ids_C, inside_C = _within(shaping.seen_ids_C, count)
    counts_C = torch.from_numpy(shaping.seen_counts_C)[inside_C].to(torch.float32)
    seen_C = logits_V[ids_C]
    seen_C = torch.where(seen_C > 0, seen_C / shaping.repetition, seen_C * shaping.repetition)
    seen_C -= counts_C * shaping.frequency
    seen_C -= (counts_C > 0).to(torch.float32) * shaping.presence
    logits_V[ids_C] = seen_C
    return logits_V


def _within(ids: NDArray[np.int32], count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The ids below `count`, and where they are."""
    listed = torch.from_numpy(ids).to(torch.int64)
    inside = (listed >= 0) & (listed < count)
    return listed[inside], inside


def score(
    logits_GV: torch.Tensor,
    tokens_G: Sequence[int],
    tops_S: NDArray[np.int32],
    scores: Scores,
    first: int,
) -> None:
    """Writes log-probabilities of the group's tokens, the rows from `first` on, into `scores`."""
    count = logits_GV.shape[1]
    for index, token in enumerate(tokens_G):
        row, tops = first + index, int(tops_S[first + index])
        if tops < 0:
            continue
        logits_V = logits_GV[index]
        logprobs_V = torch.log_softmax(logits_V.double(), -1)
        own = logits_V[token]
        before = int((logits_V > own).sum()) + int((logits_V[:token] == own).sum())
        scores.logprobs_S[row] = float(logprobs_V[token])
        scores.ranks_S[row] = before + 1
        if tops:
            ids_C = _largest(logits_V, min(tops, count))
            scores.top_ids_SK[row, : len(ids_C)] = ids_C
            scores.top_logprobs_SK[row, : len(ids_C)] = logprobs_V[ids_C]


def draw(
    logits_V: torch.Tensor,
    temperature: float,
    top_k: int,
    top_p: float,
    number: float,
    min_p: float = 0.0,
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
        probabilities_V = torch.softmax(scaled_V.double(), -1)
        return _inverse(_likely(probabilities_V, logits_V, logits_V, temperature, min_p), number)
    ids_C, order_C = ids_C.sort()
    probabilities_C = _likely(
        probabilities_C[order_C], logits_V[ids_C], logits_V, temperature, min_p
    )
    return int(ids_C[_inverse(probabilities_C, number)])


def _likely(
    probabilities_C: torch.Tensor,
    logits_C: torch.Tensor,
    logits_V: torch.Tensor,
    temperature: float,
    min_p: float,
) -> torch.Tensor:
    """The probabilities, 0 for what is less than `min_p` times as likely as the likeliest."""
    if min_p <= 0.0:
        return probabilities_C
    least = float(logits_V.max()) + temperature * math.log(min_p)
    return probabilities_C * (logits_C.double() >= least)


def _sorted(scaled_V: torch.Tensor) -> torch.Tensor:
    """All ids, likeliest first; of equal ones, lower ids come first."""
    return scaled_V.sort(descending=True, stable=True).indices


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
    return _sorted(scaled_V)


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
