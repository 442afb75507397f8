"""Pipeline parallelism: idle time of its stages."""

from collections.abc import Sequence

from netgain.cost.bounds import count, positive


def stage_layers(layers: int, stages: int) -> tuple[int, ...]:
    """Layers of each stage, contiguous ranges; the first stages take one more where uneven."""
    each, more = divmod(count("layers", layers), count("stages", stages))
    return tuple(each + (stage < more) for stage in range(stages))


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
