"""The roofline itself: arithmetic intensity, the crossover, and what is attainable."""

import math
from collections.abc import Sequence

from netgain.cost.bounds import fraction, positive
from netgain.errors import ConfigurationError


def matmul_flops(m: int, k: int, n: int) -> int:
    """[M,K] x [K,N]: 2MKN floating-point operations."""
    return 2 * m * k * n


def matmul_bytes(m: int, k: int, n: int, bytes_per_element: float = 2.0) -> float:
    """Both operands read once and the result written once."""
    return bytes_per_element * (m * k + k * n + m * n)


def matmul_intensity(m: int, k: int, n: int, bytes_per_element: float = 2.0) -> float:
    """FLOP per byte of one matrix product."""
    return matmul_flops(m, k, n) / matmul_bytes(m, k, n, bytes_per_element)


def crossover_flop_per_byte(peak_flop_s: float, bandwidth_bytes_s: float) -> float:
    """The intensity at which compute and memory take equally long: the roof's ridge.

    Raises `ConfigurationError` for rates that are not above zero.
    """
    if not (peak_flop_s > 0 and bandwidth_bytes_s > 0):
        raise ConfigurationError("a roofline needs a peak rate and a bandwidth above zero")
    return peak_flop_s / bandwidth_bytes_s


def critical_tokens(
    peak_flop_s: float, bandwidth_bytes_s: float, bytes_per_weight: float, chosen: float = 1.0
) -> float:
    """Tokens a step at which multiplying by the weights takes as long as reading them.

    B* = P b / (2 BW): 2 FLOPs per weight and token against b bytes per weight. `chosen` is the
    share of tokens that meet a weight: top-k of E for experts, whose B* is that much larger.
    """
    ridge = crossover_flop_per_byte(peak_flop_s, bandwidth_bytes_s)
    return ridge * bytes_per_weight / 2.0 / positive("chosen", fraction("chosen", chosen))


def distinct_experts(experts: int, top_k: int, tokens: float, skew: float = 0.0) -> float:
    """Expected number of experts that at least one of `tokens` is sent to.

    Uniform: E (1 - (1 - k/E)^B). With `skew` s > 0 expert e is chosen with p_e proportional to
    e^-s, scaled so that they sum to k and cut at 1: sum of 1 - (1 - p_e)^B.
    """
    if tokens <= 0:
        return 0.0
    if skew <= 0:
        return float(experts * (1.0 - (1.0 - top_k / experts) ** tokens))
    probabilities = expert_probabilities(experts, top_k, skew)
    return math.fsum(1.0 - (1.0 - p) ** tokens for p in probabilities)


def expert_probabilities(experts: int, top_k: int, skew: float) -> Sequence[float]:
    """Chance that a token is sent to each expert, likeliest first; they sum to `top_k`."""
    weights = [(rank + 1) ** -skew for rank in range(experts)]
    chosen = [0.0] * experts
    left, sure = float(top_k), 0
    # An expert cannot be chosen twice by one token: what exceeds 1 goes to the others.
    while sure < experts:
        scale = left / math.fsum(weights[sure:])
        if weights[sure] * scale <= 1.0:
            break
        chosen[sure] = 1.0
        left -= 1.0
        sure += 1
    else:
        return chosen
    for rank in range(sure, experts):
        chosen[rank] = weights[rank] * scale
    return chosen
