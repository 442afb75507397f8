"""How often each of several things is asked for."""

import random
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate


@dataclass(frozen=True)
class Zipf:
    """Thing k of `count` (from 0) has a share proportional to 1 / (k + 1) ** exponent.

    Exponent 0: all alike; about 1 is usual for documents and prompts people share.
    """

    count: int
    exponent: float

    @cached_property
    def cumulative(self) -> list[float]:
        """Sums of the weights so far."""
        return list(accumulate((k + 1) ** -self.exponent for k in range(self.count)))

    def share(self, k: int) -> float:
        """Of all draws, those of thing `k`."""
        return float((k + 1) ** -self.exponent) / self.cumulative[-1]

    def draw(self, rng: random.Random) -> int:
        """The next thing."""
        return rng.choices(range(self.count), cum_weights=self.cumulative)[0]

    def draw_distinct(self, rng: random.Random, how_many: int) -> list[int]:
        """Different things, in the order drawn."""
        found: dict[int, None] = {}
        while len(found) < min(how_many, self.count):
            found[self.draw(rng)] = None
        return list(found)
