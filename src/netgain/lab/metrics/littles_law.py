"""Little's law: requests under way = throughput x time each takes.

It holds for any stable system, whatever its distributions, so a run that breaks it was miscounted,
was not steady, or its clients idled.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from netgain.lab.metrics.columns import FloatArray, RequestColumns
from netgain.lab.metrics.outstanding import Outstanding
from netgain.lab.metrics.trimming import Window
from netgain.lab.run_header import LoadKind, RunHeader

TOLERANCE: Final = 0.05


@dataclass(frozen=True, slots=True)
class LittlesLaw:
    """N = X W over the window.

    `under_way`: time average of requests between send and end. `rate`: requests that ended, per
    second. `time_s`: mean time from send to end of the requests that ended in the window, failed
    ones included: they occupied a client too. `clients`: the concurrency asked for in closed loop,
    `thinking` how many of them were between two turns of a conversation, in the mean over time.
    `tolerance`: 5 %, or half a request per client where the window holds few requests, since the
    requests cut by its edges are that part of the whole.
    """

    under_way: float
    rate: float
    time_s: float
    tolerance: float
    clients: int | None = None
    thinking: float = 0.0

    @property
    def product(self) -> float:
        """X W."""
        return self.rate * self.time_s

    @property
    def expected(self) -> float:
        """What X W must be: a closed loop's clients but for those who think, the requests really
        under way otherwise."""
        return self.under_way if self.clients is None else self.clients - self.thinking

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
        closed = header.load is LoadKind.CLOSED
        mean_under_way = _mean_within(window, columns.sent_s, columns.gone_s)
        return cls(
            under_way=mean_under_way,
            rate=count / window.length_s,
            time_s=float((columns.gone_s - columns.sent_s)[ended].mean()),
            tolerance=max(TOLERANCE, mean_under_way / (2 * count)),
            clients=header.concurrency if closed else None,
            thinking=_mean_within(window, *_thinking(columns)) if closed else 0.0,
        )


def _thinking(columns: RequestColumns) -> tuple[FloatArray, FloatArray]:
    """When conversations fell silent between two turns, and when the next was due."""
    ended_s = {
        (record.conversation, record.turn): gone_s
        for record, gone_s in zip(columns.records, columns.gone_s, strict=True)
    }
    from_s, to_s = [], []
    for record in columns.records:
        before_s = ended_s.get((record.conversation, record.turn - 1))
        if before_s is not None and record.intended_s > before_s:
            from_s.append(before_s)
            to_s.append(record.intended_s)
    return np.array(from_s), np.array(to_s)


def _mean_within(window: Window, from_s: FloatArray, to_s: FloatArray) -> float:
    """How many of these spans there were at a time, in the mean over the window."""
    edges_s = np.array([window.from_s, window.to_s])
    return float(Outstanding.of(from_s, to_s).mean_between(edges_s)[0])
