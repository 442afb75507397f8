"""Pipeline parallelism: idle time of its stages."""

from collections.abc import Sequence

from netgain.cost.bounds import count, positive


def training_bubble(stages: int, microbatches: int) -> float:
    """Idle share (p - 1) / (m + p - 1) of a pipeline that fills and drains once.

    A hypothesis only for serving: online requests differ in length and end. Source: GPipe.
    """
    count("stages", stages)
    count("microbatches", microbatches)
    return (stages - 1) / (microbatches + stages - 1)


def steady_bubble(stage_s: Sequence[float]) -> float:
    """Idle share with at least as many steps in flight as stages: 1 - mean / max stage time."""
    slowest = positive("slowest stage", max(stage_s, default=0.0))
    return 1.0 - sum(stage_s) / len(stage_s) / slowest


def decode_bubble(stages: int, steps_in_flight: int) -> float:
    """Idle share of equal stages when fewer batches are in flight than there are stages."""
    count("stages", stages)
    count("steps_in_flight", steps_in_flight)
    return 1.0 - min(1.0, steps_in_flight / stages)


def token_latency_s(stage_s: Sequence[float], send_s: float) -> float:
    """Time one token needs through all stages, with a send at each boundary: PP never cuts it."""
    return sum(stage_s) + send_s * (len(stage_s) - 1)


def send_bytes(tokens: int, hidden: int, bytes_per_value: float) -> float:
    """Bytes that cross one boundary for a step of `tokens`: tokens x hidden x bytes."""
    return tokens * hidden * bytes_per_value
