"""Who uses this machine's cores: tests of time need to know whether it was theirs."""

import psutil


def busy_s() -> float:
    """CPU seconds of this machine, all cores, time stolen by its host included."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - times.iowait - times.guest - times.guest_nice)


def used_s(pid: int) -> float:
    """CPU seconds of a process and its children."""
    process = psutil.Process(pid)
    family = [process, *process.children(recursive=True)]
    return float(sum(sum(member.cpu_times()[:2]) for member in family))
