"""What load is made, and what became of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from netgain.errors import ConfigurationError
from netgain.lab.arrivals import Arrivals
from netgain.lab.record import ErrorKind, RequestRecord
from netgain.lab.run_header import LoadKind
from netgain.lab.target import Target


@dataclass(frozen=True, slots=True)
class OpenLoad:
    """Conversations begin at times of their own. Only their first turns come at the arrivals' rate:
    the request rate is higher by the mean number of turns.
    """

    arrivals: Arrivals

    @property
    def kind(self) -> LoadKind:
        """For the run's header."""
        return LoadKind.OPEN


@dataclass(frozen=True, slots=True)
class ClosedLoad:
    """`clients`, each holding one conversation after another.

    They begin evenly spread over `ramp_s`: all at once is a burst that no later request meets.
    """

    clients: int
    ramp_s: float = 0.0

    def __post_init__(self) -> None:
        if self.clients < 1:
            raise ConfigurationError(f"{self.clients} clients make no load: give 1 or more")

    @property
    def kind(self) -> LoadKind:
        """For the run's header."""
        return LoadKind.CLOSED


@dataclass(frozen=True, slots=True)
class ReplayLoad:
    """Conversations begin at their own `start_s` times `time_scale`: 0.5 is twice as fast."""

    time_scale: float = 1.0

    def __post_init__(self) -> None:
        if not self.time_scale > 0:
            raise ConfigurationError(f"a time scale of {self.time_scale:g} is not above 0")

    @property
    def kind(self) -> LoadKind:
        """For the run's header."""
        return LoadKind.REPLAY


Load = OpenLoad | ClosedLoad | ReplayLoad


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """One run's load.

    It ends when the conversations do, or at `duration_s`, or with `requests` requests, whichever
    is first (the last conversation is cut to fit). After `duration_s` nothing is begun; what is
    under way has `drain_s` to end, and is cancelled then. `workers`: processes (None: as many as
    the load needs). `seed` draws the arrivals. `keep_text` keeps the answers in the records. After
    `give_up_after` requests in a row without a connection the server is taken for dead.
    """

    target: Target
    load: Load
    duration_s: float | None = None
    requests: int | None = None
    drain_s: float = 30.0
    seed: int = 0
    workers: int | None = None
    keep_text: bool = False
    give_up_after: int = 20

    def __post_init__(self) -> None:
        if self.duration_s is not None and not self.duration_s > 0:
            raise ConfigurationError(f"a duration of {self.duration_s:g} s is not above 0")
        if self.requests is not None and self.requests < 1:
            raise ConfigurationError(f"{self.requests} requests make no load: give 1 or more")
        if self.workers is not None and self.workers < 1:
            raise ConfigurationError(f"{self.workers} workers make no load: give 1 or more")


class Ended(StrEnum):
    """Why a run ended."""

    COMPLETE = "complete"
    INTERRUPTED = "interrupted"
    """By the user."""
    SERVER_GONE = "server gone"
    WORKLOAD_FAILED = "workload failed"
    """The conversations could not be made, or asked."""
    WORKER_DIED = "worker died"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOutcome:
    """What became of a run; its records went to the observer.

    `reason` says more where it did not end by itself. `length_s`: from zero to the last record.
    `cpu_s`: CPU seconds the generator used within it, `leading_cpu_s` of them the process that
    took the records in.
    """

    ended: Ended
    reason: str
    started_unix_s: float
    length_s: float
    requests: int
    failed: int
    workers: int
    cpu_s: float
    leading_cpu_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadProgress:
    """How a run stands. `errors` are the failed, by kind."""

    elapsed_s: float
    duration_s: float | None
    sent: int
    in_flight: int
    answered: int
    output_tokens: int
    mean_lag_s: float
    errors: Mapping[ErrorKind, int] = field(default_factory=dict)


class LoadObserver(Protocol):
    """Hears what happens, on the thread that called `run_load`."""

    def started(self, started_unix_s: float) -> None:
        """The run's zero is fixed, a moment from now: the header can be written."""
        ...

    def record(self, record: RequestRecord) -> None:
        """A request ended."""
        ...

    def progress(self, progress: LoadProgress) -> None:
        """Several times a second."""
        ...
