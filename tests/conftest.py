"""What several rooms' tests share."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def default_gguf() -> Path:
    """The default model's file."""
    if "NETGAIN_TEST_GGUF" not in os.environ:
        pytest.skip("NETGAIN_TEST_GGUF names no file")
    return Path(os.environ["NETGAIN_TEST_GGUF"])
