"""A step's time as a sum with its numbers."""

from netgain.cost.roofline import Bound, StepEstimate

_WORDS = {
    Bound.MEMORY: "bound by memory bandwidth",
    Bound.COMPUTE: "bound by compute",
    Bound.OVERHEAD: "launches",
    Bound.COMMUNICATION: "collectives",
}


def step_words(estimate: StepEstimate) -> str:
    """`5.65 ms bound by memory bandwidth + 0.678 ms launches`: what the operations wait for."""
    parts = [
        f"{seconds * 1e3:.4g} ms {_WORDS[bound]}"
        for bound, seconds in sorted(estimate.shares_s.items(), key=lambda part: -part[1])
        if seconds
    ]
    return " + ".join(parts) or "0 ms"
