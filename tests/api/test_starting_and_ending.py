"""How a server starts, crashes, recovers and stops."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import openai
import psutil
import pytest
from tests.api.raw_http import RawRequest
from tests.api.serving import ServerUnderTest, serving, within

pytestmark = pytest.mark.model

COMPLETIONS = "/v1/completions"
KEY = "a-secret-key"


@pytest.fixture(scope="module")
def keyed(default_gguf: Path) -> Iterator[ServerUnderTest]:
    """A server of these tests' own, with an API key; they may break it, and it recovers."""
    server = ServerUnderTest("--api-key", KEY, "--served-model-name", "mine")
    try:
        yield server
    finally:
        server.stop()


def test_a_server_says_what_it_waits_for_until_it_is_ready(keyed: ServerUnderTest) -> None:
    began = time.monotonic()
    keyed.wait_ready()
    assert time.monotonic() - began < 20
    assert keyed.get("/ready").status_code == 200
    assert keyed.get("/health").status_code == 200
    assert any(line.split()[:1] == ["import"] for line in keyed.lines)


def test_the_frontend_process_holds_no_torch(keyed: ServerUnderTest) -> None:
    mapped = {Path(entry.path).name for entry in psutil.Process(keyed.pid).memory_maps()}
    assert not any("torch" in name for name in mapped)
    code = (
        "import sys, netgain.cli.main, netgain.cli.serve, netgain.server.run\n"
        "print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert loaded.stdout == "[]\n", loaded.stderr


@pytest.mark.parametrize("given", [None, "", "Bearer", "Bearer wrong", f"Basic {KEY}", KEY])
def test_without_the_right_key_nothing_is_served(keyed: ServerUnderTest, given: str | None) -> None:
    headers = {} if given is None else {"authorization": given}
    with httpx.Client(base_url=keyed.url, headers=headers) as client:
        for method, path in (
            ("POST", COMPLETIONS),
            ("POST", "/v1/chat/completions"),
            ("GET", "/v1/models"),
            ("GET", "/v1/requests/x/ledger"),
            ("POST", "/reset_prefix_cache"),
        ):
            answer = client.request(method, path)
            assert answer.status_code == 401
            assert answer.json()["error"]["code"] == "invalid_api_key"


def test_with_the_key_the_served_name_answers(keyed: ServerUnderTest) -> None:
    with keyed.client(KEY) as client:
        assert client.completions.create(model="mine", prompt="x", max_tokens=1).model == "mine"


def test_an_engine_that_dies_fails_its_requests_at_once_and_comes_back(
    keyed: ServerUnderTest,
) -> None:
    with keyed.client(KEY) as client:
        tokens = keyed.metric("netgain_engine_requests_arrived_total")
        stream = client.completions.create(
            model="mine",
            prompt="Once upon a time",
            max_tokens=1500,
            stream=True,
            extra_body={"ignore_eos": True},
        )
        next(iter(stream))
        os.kill(keyed.engine().pid, signal.SIGKILL)
        killed = time.monotonic()
        with pytest.raises(openai.APIError, match="engine ended"):
            for _ in stream:
                pass
        assert time.monotonic() - killed < 1
        with pytest.raises(openai.InternalServerError) as caught:
            client.completions.create(model="mine", prompt="x", max_tokens=1)
        assert caught.value.status_code == 503
        assert int(caught.value.response.headers["retry-after"]) >= 1
        assert keyed.get("/ready").status_code == 503
        assert within(30, lambda: keyed.get("/ready").status_code == 200)
        assert client.completions.create(model="mine", prompt="x", max_tokens=1).choices
    assert keyed.metric("netgain_engine_requests_arrived_total") > tokens
    assert keyed.metric("netgain_engine_restarts_total") == 1


def test_a_server_told_to_stop_finishes_what_runs(keyed: ServerUnderTest) -> None:
    engine = keyed.engine()
    fields: dict[str, object] = {"prompt": "One", "max_tokens": 40, "ignore_eos": True}
    with keyed.client(KEY) as client:
        stream = client.completions.create(
            model="mine", prompt="One", max_tokens=40, stream=True, extra_body={"ignore_eos": True}
        )
        chunks = iter(stream)
        next(chunks)
        keyed.process.send_signal(signal.SIGTERM)
        assert [chunk.choices[0].finish_reason for chunk in chunks][-1] == "length"
    assert keyed.ended() == 0
    assert not engine.is_running()
    with pytest.raises(ConnectionRefusedError):
        RawRequest(keyed.port, COMPLETIONS, fields)


def test_a_port_in_use_is_one_clear_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = subprocess.run(
            [sys.executable, "-m", "netgain", "serve", "--port", str(taken.getsockname()[1])],
            capture_output=True,
            text=True,
            timeout=30,
        )
    assert result.returncode == 1
    assert result.stdout == ""
    assert len(result.stderr.strip().splitlines()) == 1
    assert "--port" in result.stderr


def test_an_engine_that_cannot_start_says_why_and_ends_the_server(default_gguf: Path) -> None:
    server = ServerUnderTest("--kv-memory", "1000TiB")
    assert server.ended() == 1
    assert "short by" in server.output
    assert "Traceback" not in server.output


@pytest.mark.model
def test_a_killed_frontend_leaves_neither_engine_nor_socket_behind(default_gguf: Path) -> None:
    with serving("--model", str(default_gguf)) as server:
        engine = server.engine()
        command = engine.cmdline()
        path = Path(command[command.index("--connect") + 1].removeprefix("ipc://"))
        assert path.exists()
        os.kill(server.pid, signal.SIGKILL)
        assert within(10, lambda: not engine.is_running())
        assert not path.parent.exists()
