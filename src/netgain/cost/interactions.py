"""Two techniques at once: what one does to the arithmetic of the other.

1. Speculation in a decode pool finishes its requests faster, so that the same prefill pool is now
   too small: the P:D ratio changes.
2. A wider tier below each replica gains nothing when requests go to replicas at random: what a
   replica has not seen, it cannot hold. With routing by prefix the same tier pays.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from netgain.cost.bounds import count, positive
from netgain.cost.disaggregation import balanced_ratio
from netgain.cost.tiers import lru_hit_rate_from_empty


@dataclass(frozen=True, slots=True)
class Interaction:
    """What the second of two techniques does to a quantity of the first, or the other way round.

    `quantity` goes from `before` to `after`, in a report's `unit`; `why` says by what.
    """

    techniques: tuple[str, str]
    quantity: str
    before: float
    after: float
    unit: str
    why: str


@dataclass(frozen=True, slots=True)
class PoolShift:
    """Prefill instances per decode instance, before and after the decode pool speeds up."""

    before: float
    after: float

    @property
    def idle_decode(self) -> float:
        """Share of the decode pool that idles if the ratio is left as it was."""
        return max(0.0, 1.0 - self.before / self.after)


def ratio_with_speculation(
    prefill_per_s: float, decode_per_s: float, decode_speed_up: float
) -> PoolShift:
    """How the balance moves when decode instances finish `decode_speed_up` times as many requests.

    `decode_speed_up` is S(B) at the pool's own batch, not at batch 1; below 1 the ratio falls.
    """
    before = balanced_ratio(prefill_per_s, decode_per_s)
    after = balanced_ratio(prefill_per_s, decode_per_s * positive("speed-up", decode_speed_up))
    return PoolShift(before, after)


def fleet_hit_rate(
    popularity: Sequence[float],
    capacity_each: float,
    replicas: int,
    requests: float,
    by_prefix: bool,
) -> float:
    """Hit rate of `replicas` private caches that start empty, over `requests` in all.

    At random every replica sees every prefix at 1/n of the rate, in a cache of its own. By prefix
    each prefix has a home: together the replicas are one cache of n times the capacity.
    """
    count("replicas", replicas)
    if by_prefix:
        return lru_hit_rate_from_empty(popularity, capacity_each * replicas, requests)
    return lru_hit_rate_from_empty(popularity, capacity_each, requests / replicas)
