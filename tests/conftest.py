"""What several rooms' tests share."""

from pathlib import Path

import pytest

from netgain.models.store import ensure_default


@pytest.fixture(scope="session")
def default_gguf() -> Path:
    """The default model's file, fetched once into the user's cache."""
    return ensure_default()
