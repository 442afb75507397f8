"""What the process that leads a load and those that make it say to each other: lines of JSON.

JSON, since records and conversations hold parts that are JSON already and are passed on unread.
"""

import msgspec

from netgain.lab.conversation import Conversation
from netgain.lab.record import RequestRecord
from netgain.lab.target import Target


class Setup(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """To a worker, first. `clients`: closed loop with so many clients; None: each conversation
    begins at its own time. `stagger_s` passes between the starts of two clients, the first waits
    `stagger_first_s`. `ahead`: how many conversations it holds in advance.
    """

    target: Target
    clients: int | None
    stagger_s: float
    stagger_first_s: float
    ahead: int
    duration_s: float | None
    drain_s: float
    keep_text: bool
    send_texts: bool


class Given(msgspec.Struct, frozen=True, tag=True):
    """To a worker: a conversation, its number, its first request's index, and when it begins."""

    number: int
    first_index: int
    start_s: float | None
    conversation: Conversation


class Enough(msgspec.Struct, frozen=True, tag=True):
    """To a worker: no conversation follows."""


class Go(msgspec.Struct, frozen=True, tag=True):
    """To a worker: the run's zero, in seconds of the system's monotonic clock."""

    zero_s: float


class Stop(msgspec.Struct, frozen=True, tag=True):
    """To a worker: give up what is under way, and end."""


class Wants(msgspec.Struct, frozen=True, tag=True):
    """From a worker: it takes so many more conversations."""

    count: int


class Done(msgspec.Struct, frozen=True, tag=True):
    """From a worker: a request ended. `texts`: what each event added to which choice, if wanted."""

    record: RequestRecord
    texts: tuple[tuple[tuple[int, str], ...], ...] = ()


class Pulse(msgspec.Struct, frozen=True, tag=True):
    """From a worker, several times a second."""

    sent: int
    in_flight: int


class Bye(msgspec.Struct, frozen=True, tag=True):
    """From a worker, last: CPU seconds since the run's zero."""

    cpu_s: float


ToWorker = Setup | Given | Enough | Go | Stop
FromWorker = Wants | Done | Pulse | Bye
