"""The launcher restarts what crashes and gives up on what never works."""

import asyncio
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from netgain.config import EngineSettings
from netgain.engine.client import EngineState
from netgain.engine.ipc_client import IpcEngineClient
from netgain.fleet.engine_process import EngineProcess, PrivateDirectory
from netgain.fleet.launcher import EngineStartError, LocalLauncher, RestartPolicy

QUICK = RestartPolicy(first_delay_s=0.01, max_delay_s=0.02, max_failed_starts=3)


@pytest.fixture
def directory() -> Iterator[PrivateDirectory]:
    made = PrivateDirectory()
    yield made
    made.remove()


def process(code: str, endpoint: str) -> EngineProcess:
    return EngineProcess([sys.executable, "-c", code], EngineSettings(), endpoint)


def test_the_delay_doubles_up_to_its_limit_and_is_none_after_a_good_start() -> None:
    policy = RestartPolicy(first_delay_s=0.5, max_delay_s=3.0)
    assert [policy.delay_s(failed) for failed in range(6)] == [0, 0.5, 1, 2, 3, 3]
    assert policy.delay_s(10**6) == 3


def test_an_engine_that_never_gets_ready_is_given_up_with_its_last_words(
    directory: PrivateDirectory,
) -> None:
    started: list[str] = []

    def spawn(endpoint: str) -> EngineProcess:
        started.append(endpoint)
        return process("import sys; print('no such device'); sys.exit(7)", endpoint)

    async def run() -> None:
        client = IpcEngineClient()
        try:
            await LocalLauncher(spawn, client, directory, policy=QUICK).run()
        finally:
            assert client.state is EngineState.DEAD
            client.close()

    with pytest.raises(EngineStartError, match=r"exit code 7(.|\n)*no such device"):
        asyncio.run(run())
    assert len(started) == len(set(started)) == QUICK.max_failed_starts


def test_an_engine_that_ignores_the_request_to_stop_is_killed(directory: PrivateDirectory) -> None:
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up')\n"

    async def run() -> int:
        client = IpcEngineClient()
        first = process(deaf + "while True: time.sleep(60)", directory.next_endpoint())
        launcher = LocalLauncher(lambda _: first, client, directory, first, stop_grace_s=0.2)
        running = asyncio.ensure_future(launcher.run())
        while "up" not in first.last_lines():
            await asyncio.sleep(0.01)
        await launcher.stop()
        await running
        client.close()
        return first.pid

    assert not psutil.pid_exists(asyncio.run(run()))


def test_an_engine_sees_the_end_of_its_standard_input_when_the_parent_goes(
    directory: PrivateDirectory,
) -> None:
    child = "import sys; sys.stdin.buffer.read()"
    parent = (
        "import sys, os\n"
        "from netgain.config import EngineSettings\n"
        "from netgain.fleet.engine_process import EngineProcess\n"
        f"p = EngineProcess([sys.executable, '-c', {child!r}], EngineSettings(), 'ipc://x')\n"
        "print(p.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )

    async def run() -> int:
        started = await asyncio.create_subprocess_exec(
            sys.executable, "-c", parent, stdout=asyncio.subprocess.PIPE
        )
        assert started.stdout is not None
        pid = int(await started.stdout.readline())
        await started.wait()
        return pid

    pid = asyncio.run(run())
    end = time.monotonic() + 5
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < end


def test_the_socket_directory_is_private_and_its_endpoints_are_short() -> None:
    directory = PrivateDirectory()
    first, second = directory.next_endpoint(), directory.next_endpoint()
    assert directory.path.stat().st_mode & 0o777 == 0o700
    assert first != second
    assert len(first) < 100
    assert Path(first.removeprefix("ipc://")).parent == directory.path
    directory.remove()
    assert not directory.path.exists()
