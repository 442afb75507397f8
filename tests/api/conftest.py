from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import OpenAI
from tests.api.serving import ServerUnderTest, serving


@pytest.fixture(scope="session")
def server(default_gguf: Path) -> Iterator[ServerUnderTest]:
    """One server with the default model for all tests that do not break it."""
    with serving() as running:
        yield running


@pytest.fixture(scope="session")
def client(server: ServerUnderTest) -> Iterator[OpenAI]:
    with server.client() as made:
        yield made
