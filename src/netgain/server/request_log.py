"""A line for each ended request, where the operator wants one. Never a word of a prompt."""

import logging
import sys
from typing import Final

REQUESTS: Final = logging.getLogger("netgain.requests")


def log_requests() -> None:
    """Sends the lines to standard error; without this they go nowhere."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    REQUESTS.addHandler(handler)
    REQUESTS.setLevel(logging.INFO)
    REQUESTS.propagate = False
