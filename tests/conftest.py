"""What several rooms' tests share."""

from pathlib import Path

import pytest
from hypothesis import settings

from netgain.models.store import ensure_default

# Properties are tried on the same examples every time; `--hypothesis-profile=random` tries others.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("random", deadline=None, max_examples=500, print_blob=True)
settings.load_profile("fixed")


@pytest.fixture(scope="session")
def default_gguf() -> Path:
    """The default model's file, fetched once into the user's cache."""
    return ensure_default()
