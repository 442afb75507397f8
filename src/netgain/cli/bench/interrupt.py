"""How a run is told to end before its time."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """Within it SIGTERM is what Ctrl-C is: the run ends with a report of what there was."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
