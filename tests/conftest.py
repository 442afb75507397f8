"""What several rooms' tests share."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

from netgain.models.store import ensure_default

# As the torch backend does, which tests may import after torch itself.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# Properties are tried on the same examples every time; `--hypothesis-profile=random` tries others.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("random", deadline=None, max_examples=500, print_blob=True)
settings.load_profile("fixed")


_TIES: list[str] = []


@pytest.fixture(scope="session")
def ties() -> list[str]:
    """Where two tokens' logits were so close that either is right; listed after the run."""
    return _TIES


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Lists the excused ties, so that nobody has to believe there were few."""
    if _TIES:
        terminalreporter.section(f"{len(_TIES)} excused ties of greedy tokens")
        for tie in _TIES:
            terminalreporter.line(tie)


@pytest.fixture(scope="session")
def default_gguf() -> Path:
    """The default model's file, fetched once into the user's cache."""
    return ensure_default()
