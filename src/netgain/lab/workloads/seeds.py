"""Seeds that are derived from one seed: the same on every machine and in every version."""

import hashlib
import random


def derived_seed(seed: int, *labels: str | int) -> int:
    """A seed of its own for a part of a workload: equal inputs, equal seed, on every machine."""
    text = "/".join(map(str, (seed, *labels)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def stream(seed: int, *labels: str | int) -> random.Random:
    """Random numbers of its own for a part of a workload."""
    return random.Random(derived_seed(seed, *labels))  # noqa: S311 - repeatable, not secret


def repeat_seed(seed: int, repeat: int) -> int:
    """The seed of a run's repeat: the first keeps the seed, so that one run can be had again."""
    return seed if repeat == 0 else derived_seed(seed, "repeat", repeat) >> 11
