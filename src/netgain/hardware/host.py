"""Memory and cores that this process may use, its control group's limits included."""

import os
import platform
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_MEMINFO: Final = Path("/proc/meminfo")
_CGROUP_V2: Final = Path("/sys/fs/cgroup")
_CGROUP_V1: Final = Path("/sys/fs/cgroup/memory")


def available_memory_bytes() -> int:
    """Bytes that can be allocated without swapping: the tightest of host and control group."""
    return min(_limits())


def usable_cores() -> int:
    """CPU cores this process may run on, at least 1."""
    affinity = len(os.sched_getaffinity(0))
    return max(1, min(affinity, _cgroup_cores() or affinity))


def processor_name() -> str:
    """As Linux calls it, else as Python does."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def process_age_s() -> float:
    """Seconds since this process began, to a hundredth."""
    # Field 22 of stat counts clock ticks since boot; the name before it may hold spaces.
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    began_s = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - began_s


def _limits() -> Iterator[int]:
    for line in _MEMINFO.read_text().splitlines():
        if line.startswith("MemAvailable:"):
            yield int(line.split()[1]) * 1024
            break
    else:
        yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for group, limit, used, droppable in (
        (_CGROUP_V2, "memory.max", "memory.current", "inactive_file"),
        (_CGROUP_V1, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        limit_bytes, used_bytes = _number(group / limit), _number(group / used)
        if limit_bytes is not None and used_bytes is not None:
            # A model file just read is file cache: the kernel drops it before it refuses memory.
            held_bytes = max(0, used_bytes - _stat(group / "memory.stat", droppable))
            yield max(0, limit_bytes - held_bytes)


def _cgroup_cores() -> int | None:
    """Whole cores of the control group's quota, if it has one."""
    try:
        quota, period = (_CGROUP_V2 / "cpu.max").read_text().split()
        return max(1, int(quota) // int(period))
    except (OSError, ValueError):
        return None


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _stat(path: Path, field: str) -> int:
    """One field of a `memory.stat`, 0 if it is not there."""
    try:
        for line in path.read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == field:
                return int(value)
    except (OSError, ValueError):
        pass
    return 0
