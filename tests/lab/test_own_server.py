"""A netgain server of an experiment's own."""

import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from netgain.lab.own_server import OwnServerError, own_server
from tests.tiny_served import write_tiny_served

_OWNER = """
import sys, time
from netgain.lab.own_server import own_server
with own_server(sys.argv[1]) as url:
    print(url, flush=True)
    time.sleep(600)
"""


def answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=5.0, trust_env=False).is_success
    except httpx.HTTPError:
        return False


def test_it_ends_though_its_owner_is_killed(tmp_path: Path) -> None:
    model = str(write_tiny_served(tmp_path / "tiny"))
    with subprocess.Popen(
        [sys.executable, "-c", _OWNER, model], stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        url = owner.stdout.readline().strip()
        assert answers(url)
        owner.kill()
    until = time.monotonic() + 30
    while answers(url) and time.monotonic() < until:
        time.sleep(0.1)
    assert not answers(url)


def test_one_that_does_not_start_says_its_own_reason(tmp_path: Path) -> None:
    with (
        pytest.raises(OwnServerError, match="no such file"),
        own_server(str(tmp_path / "none.gguf")),
    ):
        pass
