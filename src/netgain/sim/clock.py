"""Time that moves only when the simulation says so."""


class VirtualClock:
    """A clock that stands still between events."""

    def __init__(self, start_ns: int = 0) -> None:
        self._now_ns = start_ns

    def now_ns(self) -> int:
        """The time of the event being handled."""
        return self._now_ns

    def advance_to(self, now_ns: int) -> None:
        """Moves to a later time. Raises `ValueError` for an earlier one."""
        if now_ns < self._now_ns:
            raise ValueError(f"time cannot go back from {self._now_ns} to {now_ns}")
        self._now_ns = now_ns
