"""What a run was: the first line of its file, before its records."""

from enum import StrEnum

import msgspec


class LoadKind(StrEnum):
    """How requests come."""

    OPEN = "open"
    """At times of their own, whether or not earlier ones were answered."""
    CLOSED = "closed"
    """A fixed number of clients, each sending when its last request was answered."""
    REPLAY = "replay"
    """At the times of a recorded trace, scaled."""


class CacheState(StrEnum):
    """What the server's prefix cache held when the run began."""

    COLD = "cold"
    WARM = "warm"
    UNDECLARED = "undeclared"


class RunHeader(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="run"):
    """One run's conditions.

    `rate` is the mean request rate asked for (open loop), `concurrency` the number of clients
    (closed loop), `time_scale` what a trace's times were multiplied by (replay). `duration_s` is
    how long requests were started, not how long the last took; 0 where their number was the bound.
    `started_unix_s` is the run's zero.
    """

    schema: int = 1
    load: LoadKind
    rate: float | None = None
    arrivals: str = ""
    concurrency: int | None = None
    time_scale: float | None = None
    duration_s: float
    workload: str
    target: str
    model: str
    api: str
    seed: int
    cache: CacheState = CacheState.UNDECLARED
    started_unix_s: float
    command: str = ""
    versions: dict[str, str] = {}
    machine: dict[str, str] = {}
