from pathlib import Path

import pytest
from tests.tiny_served import write_tiny_served

from netgain.lab.workloads.local_counter import LocalCounter
from netgain.lab.workloads.prompt_writer import PromptWriter


@pytest.fixture(scope="session")
def tiny_counter(tmp_path_factory: pytest.TempPathFactory) -> LocalCounter:
    """Bytes and a few merges: hardly any word is one token."""
    return LocalCounter.load(write_tiny_served(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="session")
def smollm_counter(default_gguf: Path) -> LocalCounter:
    return LocalCounter.load(default_gguf)


@pytest.fixture
def tiny_chat(tiny_counter: LocalCounter) -> PromptWriter:
    return PromptWriter(tiny_counter)


@pytest.fixture
def tiny_plain(tiny_counter: LocalCounter) -> PromptWriter:
    return PromptWriter(tiny_counter, chat=False)


@pytest.fixture(scope="session")
def tiny_writers(tiny_counter: LocalCounter) -> dict[bool, PromptWriter]:
    """By whether they write for chat; only for tests that do not look at `notes`."""
    return {chat: PromptWriter(tiny_counter, chat=chat) for chat in (True, False)}
