from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import OpenAI
from tests.api.serving import ServerUnderTest, serving
from tests.tiny_served import write_tiny_served


@pytest.fixture(scope="session")
def server(default_gguf: Path) -> Iterator[ServerUnderTest]:
    """One server with the default model for all tests that do not break it."""
    with serving() as running:
        yield running


@pytest.fixture(scope="session")
def client(server: ServerUnderTest) -> Iterator[OpenAI]:
    with server.client() as made:
        yield made


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random model with a vocabulary of bytes."""
    return write_tiny_served(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def tiny(tiny_folder: Path) -> Iterator[ServerUnderTest]:
    """One server of the tiny model for all tests that do not break it."""
    flags = ("--served-model-name", "tiny", "--served-model-name", "other")
    with serving("--model", str(tiny_folder), *flags) as running:
        yield running


@pytest.fixture(scope="session")
def tiny_client(tiny: ServerUnderTest) -> Iterator[OpenAI]:
    with tiny.client() as made:
        yield made
