"""Time as the core loop sees it: monotonic integer nanoseconds, real or virtual."""

import time
from typing import Final, Protocol

NS_PER_S: Final = 1_000_000_000


class Clock(Protocol):
    """A monotonic clock."""

    def now_ns(self) -> int:
        """Nanoseconds since an arbitrary zero."""
        ...


class MonotonicClock:
    """This process's monotonic clock."""

    def now_ns(self) -> int:
        """`time.monotonic_ns`."""
        return time.monotonic_ns()
