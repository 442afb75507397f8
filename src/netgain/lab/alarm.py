"""Callbacks at exact times: an event loop's own timers are rounded to whole milliseconds.

On Linux one timer of the kernel (timerfd, tens of microseconds) wakes the loop for the earliest
callback; elsewhere the loop's own timer does.
"""

import asyncio
import ctypes
import heapq
import os
import sys
import time
from collections.abc import Callable
from typing import Final

_ABSOLUTE: Final = 1
_NS_PER_S: Final = 1_000_000_000


class Appointment:
    """One callback to come; `cancel` makes it never come."""

    __slots__ = ("at_s", "callback")

    def __init__(self, at_s: float, callback: Callable[[], None]) -> None:
        self.at_s = at_s
        self.callback: Callable[[], None] | None = callback

    def __lt__(self, other: "Appointment") -> bool:
        return self.at_s < other.at_s

    def cancel(self) -> None:
        """Forgets the callback."""
        self.callback = None


class Alarm:
    """Calls back at times of `time.monotonic()`, never early. `close` it at the end."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pending: list[Appointment] = []
        self._armed_s: float | None = None
        self._timer: _KernelTimer | None = None
        self._handle: asyncio.TimerHandle | None = None
        if sys.platform == "linux":
            self._timer = _KernelTimer()
            loop.add_reader(self._timer.fd, self._ring)

    def at(self, when_s: float, callback: Callable[[], None]) -> Appointment:
        """Calls back at `when_s`, or as soon as the loop turns if that has passed."""
        appointment = Appointment(when_s, callback)
        heapq.heappush(self._pending, appointment)
        if self._armed_s is None or when_s < self._armed_s:
            self._arm(when_s)
        return appointment

    def free_for(self, length_s: float) -> bool:
        """Whether nothing is due within `length_s` from now, nor overdue."""
        return self._armed_s is None or self._armed_s > time.monotonic() + length_s

    async def until(self, when_s: float) -> None:
        """Sleeps until `when_s`; returns at once if that has passed."""
        if when_s <= time.monotonic():
            return
        woken = self._loop.create_future()
        appointment = self.at(when_s, lambda: None if woken.done() else woken.set_result(None))
        try:
            await woken
        finally:
            appointment.cancel()

    def close(self) -> None:
        """Forgets everything pending."""
        self._pending.clear()
        if self._handle is not None:
            self._handle.cancel()
        if self._timer is not None:
            self._loop.remove_reader(self._timer.fd)
            self._timer.close()
            self._timer = None

    def _ring(self) -> None:
        pending = self._pending
        now = time.monotonic()
        while pending and (pending[0].callback is None or pending[0].at_s <= now):
            callback = heapq.heappop(pending).callback
            if callback is not None:
                callback()
                now = time.monotonic()
        self._arm(pending[0].at_s if pending else None)

    def _arm(self, when_s: float | None) -> None:
        self._armed_s = when_s
        if self._timer is not None:
            self._timer.set(when_s)
            return
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        if when_s is not None:
            delay_s = max(0.0, when_s - time.monotonic())
            self._handle = self._loop.call_later(delay_s, self._ring)


class _TimeSpec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _TimerSpec(ctypes.Structure):
    _fields_ = (("interval", _TimeSpec), ("value", _TimeSpec))


class _KernelTimer:
    """A timerfd: readable once its time has come, until it is set anew."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.fd: int = self._libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create failed")
        self._spec = _TimerSpec()
        self._reference = ctypes.byref(self._spec)

    def set(self, when_s: float | None) -> None:
        """None: never."""
        # Zero would disarm; a time that has passed rings at once.
        when_ns = 0 if when_s is None else max(1, int(when_s * _NS_PER_S) + 1)
        self._spec.value.seconds, self._spec.value.nanoseconds = divmod(when_ns, _NS_PER_S)
        self._libc.timerfd_settime(self.fd, _ABSOLUTE, self._reference, None)

    def close(self) -> None:
        os.close(self.fd)
