"""A process and its descendants, through /proc: stop, continue, end, memory and CPU time."""

import ctypes
import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

_TICKS_S: Final = os.sysconf("SC_CLK_TCK")
_PR_SET_PDEATHSIG: Final = 1
_LIBC: Final = ctypes.CDLL(None)


class ProcessTree:
    """Everything that descends from a live process, asked anew each time."""

    def __init__(self, pid: int) -> None:
        self._root = next(process for process in _processes() if process.pid == pid)

    def processes(self) -> "list[_Process]":
        """Those of the tree, the root first; none once the root is gone, whoever has its number."""
        children: dict[int, list[_Process]] = {}
        found: list[_Process] = []
        for process in _processes():
            children.setdefault(process.parent, []).append(process)
            if (process.pid, process.started) == (self._root.pid, self._root.started):
                found.append(process)
        for process in found:
            found += children.get(process.pid, [])
        return found

    def pids(self) -> list[int]:
        """Their numbers."""
        return [process.pid for process in self.processes()]

    def pause(self) -> None:
        """Stops every process: an idle engine uses no CPU, whatever its threads spin on."""
        self._signal(self.pids(), signal.SIGSTOP)

    def resume(self) -> None:
        """Lets all of them run again, children before who may wait for them."""
        self._signal(reversed(self.pids()), signal.SIGCONT)

    def kill(self) -> None:
        """Ends what is left of the tree."""
        self._signal(self.pids(), signal.SIGKILL)

    def pss_bytes(self) -> int:
        """Proportional set size of all processes: shared pages count once, in shares."""
        total = 0
        for pid in self.pids():
            with suppress(OSError):
                for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                    if line.startswith("Pss:"):
                        total += int(line.split()[1]) * 1024
        return total

    def cpu_s(self) -> float:
        """User and system seconds of all live processes so far."""
        return sum(process.cpu_s for process in self.processes())

    def idle_cores(self, seconds: float = 1.0) -> float:
        """Cores it keeps busy while nobody asks it anything."""
        began = self.cpu_s()
        time.sleep(seconds)
        return (self.cpu_s() - began) / seconds

    def _signal(self, pids: Iterable[int], number: signal.Signals) -> None:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def end_with_parent() -> None:
    """For a child before it runs its program: it is killed when its parent dies.

    A stopped process would otherwise stay for ever when the orchestrator is killed.
    """
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def busy_s() -> float:
    """CPU seconds this machine has spent on anything since it started, all cores."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, fields[:8])
    return (user + nice + system + irq + softirq + steal) / _TICKS_S


class _Process(NamedTuple):
    """`started` in clock ticks since boot tells two processes of one number apart."""

    pid: int
    parent: int
    started: int
    cpu_s: float


def _processes() -> Iterator[_Process]:
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            # The name in parentheses may hold anything, spaces too.
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            cpu_s = (int(fields[11]) + int(fields[12])) / _TICKS_S
            yield _Process(int(entry.name), int(fields[1]), int(fields[19]), cpu_s)
