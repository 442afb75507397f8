"""Little's law: requests under way = throughput x time each takes.

It holds for any stable system, whatever its distributions, so a run that breaks it was miscounted,
was not steady, or its clients idled.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from netgain.lab.metrics.columns import RequestColumns
from netgain.lab.metrics.outstanding import Outstanding
from netgain.lab.metrics.trimming import Window
from netgain.lab.run_header import LoadKind, RunHeader

TOLERANCE: Final = 0.05


@dataclass(frozen=True, slots=True)
class LittlesLaw:
    """N = X W over the window.

    `under_way`: time average of requests between send and end. `rate`: requests that ended, per
    second. `time_s`: mean time from send to end of the requests that ended in the window, failed
    ones included: they occupied a client too. `clients`: the concurrency asked for in closed loop.
    `tolerance`: 5 %, or half a request per client where the window holds few requests, since the
    requests cut by its edges are that part of the whole.
    """

    under_way: float
    rate: float
    time_s: float
    tolerance: float
    clients: int | None = None

    @property
    def product(self) -> float:
        """X W."""
        return self.rate * self.time_s

    @property
    def expected(self) -> float:
        """What X W must be: a closed loop's clients, the requests really under way otherwise."""
        return self.under_way if self.clients is None else float(self.clients)

    @property
    def holds(self) -> bool:
        """Whether X W is N within the tolerance."""
        return abs(self.product - self.expected) <= self.tolerance * self.expected

    @classmethod
    def of(cls, header: RunHeader, columns: RequestColumns, window: Window) -> "LittlesLaw | None":
        """None when nothing ended in the window."""
        ended = window.holds(columns.gone_s) & ~np.isnan(columns.sent_s)
        count = int(ended.sum())
        if not count or window.length_s <= 0:
            return None
        under_way = Outstanding.of(columns.sent_s, columns.gone_s).mean_between(
            np.array([window.from_s, window.to_s])
        )
        mean_under_way = float(under_way[0])
        return cls(
            under_way=mean_under_way,
            rate=count / window.length_s,
            time_s=float((columns.gone_s - columns.sent_s)[ended].mean()),
            tolerance=max(TOLERANCE, mean_under_way / (2 * count)),
            clients=header.concurrency if header.load is LoadKind.CLOSED else None,
        )
