"""The limits of the control group count, and cache that can be dropped is not in use."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from netgain.hardware import host

MEMINFO = "MemTotal: 9000 kB\nMemFree: 1 kB\nMemAvailable: 8000 kB\n"
Write = Callable[[str, str], None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Puts files where the host's are looked for; there is no control group until one is put."""
    monkeypatch.setattr(host, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(host, "_CGROUP_V2", tmp_path / "v2")
    monkeypatch.setattr(host, "_CGROUP_V1", tmp_path / "v1")
    (tmp_path / "v1").mkdir()
    (tmp_path / "v2").mkdir()

    def put(name: str, text: str) -> None:
        (tmp_path / name).write_text(text)

    put("meminfo", MEMINFO)
    return put


def test_this_machine_has_memory_and_a_core() -> None:
    assert host.available_memory_bytes() > 0
    assert host.usable_cores() >= 1


def test_without_a_control_group_the_hosts_available_memory_counts(write: Write) -> None:
    assert host.available_memory_bytes() == 8000 * 1024


@pytest.mark.parametrize(
    ("limit", "used"),
    [
        ("v2/memory.max", "v2/memory.current"),
        ("v1/memory.limit_in_bytes", "v1/memory.usage_in_bytes"),
    ],
)
def test_a_control_groups_limit_counts_less_what_it_uses(
    write: Write, limit: str, used: str
) -> None:
    write(limit, "1000000\n")
    write(used, "400000\n")
    assert host.available_memory_bytes() == 600_000
    write(used, "1200000\n")
    assert host.available_memory_bytes() == 0


def test_a_limit_above_what_the_host_has_changes_nothing(write: Write) -> None:
    write("v2/memory.max", str(1 << 50))
    write("v2/memory.current", "0")
    assert host.available_memory_bytes() == 8000 * 1024


def test_a_control_group_without_a_limit_changes_nothing(write: Write) -> None:
    write("v2/memory.max", "max\n")
    write("v2/memory.current", "400000\n")
    assert host.available_memory_bytes() == 8000 * 1024


@pytest.mark.parametrize(
    ("version", "limit", "used", "field"),
    [
        ("v2", "memory.max", "memory.current", "inactive_file"),
        ("v1", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ],
)
def test_file_cache_that_can_be_dropped_is_not_counted_as_used(
    write: Write, version: str, limit: str, used: str, field: str
) -> None:
    write(f"{version}/{limit}", "1000000\n")
    write(f"{version}/{used}", "900000\n")
    write(f"{version}/memory.stat", f"anon 1\n{field} 500000\nslab 7\n")
    assert host.available_memory_bytes() == 600_000


@pytest.mark.parametrize(
    ("quota", "cores"),
    [("150000 100000", 1), ("50000 100000", 1), ("200000 100000", 2), ("max 100000", 8)],
)
def test_a_cpu_quota_limits_the_cores(
    write: Write, monkeypatch: pytest.MonkeyPatch, quota: str, cores: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    write("v2/cpu.max", quota)
    assert host.usable_cores() == cores
