"""Starts engines, watches them, starts them again, stops them."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from netgain.engine.client import EngineState
from netgain.engine.ipc_client import IpcEngineClient
from netgain.errors import NetgainError
from netgain.fleet.engine_process import EngineProcess, PrivateDirectory

_log = logging.getLogger(__name__)


class EngineStartError(NetgainError):
    """No engine can be brought up; the message holds the engine's own last words."""


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """When a crashed engine is started again: after `first_delay_s`, doubling up to `max_delay_s`.

    An engine that was ready before it crashed is started again at once. `max_failed_starts`
    crashes in a row without ever getting ready, and the launcher gives up.
    """

    first_delay_s: float = 0.5
    max_delay_s: float = 10.0
    max_failed_starts: int = 4

    def delay_s(self, failed_starts: int) -> float:
        """How long to wait after this many crashes in a row without getting ready."""
        if failed_starts == 0:
            return 0.0
        return min(self.first_delay_s * 2.0 ** min(failed_starts - 1, 30), self.max_delay_s)


class Launcher(Protocol):
    """Keeps workers running."""

    @property
    def restarts(self) -> int:
        """How often a worker was started again."""
        ...

    async def run(self) -> None:
        """Keeps the worker up until `stop`. Raises `EngineStartError` when that is hopeless."""
        ...

    async def stop(self) -> None:
        """Ends the worker, gracefully at first."""
        ...


class LocalLauncher:
    """Runs one engine as a child process on this machine.

    `spawn` starts an engine that will connect to the endpoint it is given. `first`: an engine
    process started already, by a caller that wanted its imports under way before its own; its
    endpoint must come from `directory`.
    """

    def __init__(
        self,
        spawn: Callable[[str], EngineProcess],
        client: IpcEngineClient,
        directory: PrivateDirectory,
        first: EngineProcess | None = None,
        policy: RestartPolicy | None = None,
        stop_grace_s: float = 5.0,
    ) -> None:
        self._spawn = spawn
        self._client = client
        self._directory = directory
        self._process = first
        self._policy = policy or RestartPolicy()
        self._stop_grace_s = stop_grace_s
        self._refusal: str | None = None
        self._stopping = asyncio.Event()
        self._ended = asyncio.Event()
        self._restarts = 0
        client.on_start_failed = self._refused
        client.on_garbled = self._kill

    @property
    def restarts(self) -> int:
        """How often an engine was started again."""
        return self._restarts

    @property
    def pid(self) -> int | None:
        """The running engine's process id."""
        return None if self._process is None else self._process.pid

    async def run(self) -> None:
        """Keeps an engine up until `stop`.

        Raises `EngineStartError` when the engine says that it cannot start (its own message), or
        crashed too often in a row without ever getting ready (its last lines).
        """
        failed_starts = 0
        try:
            while not self._stopping.is_set():
                was_ready, code = await self._one_life()
                if self._stopping.is_set():
                    return
                if self._refusal is not None:
                    raise EngineStartError(self._refusal)
                failed_starts = 0 if was_ready else failed_starts + 1
                if failed_starts >= self._policy.max_failed_starts:
                    raise EngineStartError(self._hopeless(failed_starts, code))
                delay_s = self._policy.delay_s(failed_starts)
                _log.error("the engine ended (%s); starting it again in %g s", _how(code), delay_s)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), delay_s)
                self._restarts += 1
                self._process = None
        finally:
            self._ended.set()

    async def stop(self) -> None:
        """Asks the engine to end, then makes it."""
        self._stopping.set()
        process = self._process
        if process is None or not process.alive:
            return
        self._client.shut_down()
        if self._client.state is not EngineState.READY:
            # It may be busy loading and not read messages.
            process.terminate()
        try:
            await asyncio.wait_for(self._ended.wait(), self._stop_grace_s)
        except TimeoutError:
            process.kill()
            await self._ended.wait()

    async def _one_life(self) -> tuple[bool, int]:
        """Runs one process to its end; returns whether it was ever ready, and its exit code."""
        if self._process is None:
            self._process = self._spawn(self._directory.next_endpoint())
        process = self._process
        self._client.begin(process.endpoint)
        code = await asyncio.to_thread(process.wait)
        # What it sent just before it ended may still be on its way through the socket.
        await asyncio.sleep(0 if self._client.state is EngineState.READY else 0.05)
        was_ready = self._client.state is EngineState.READY
        self._client.end(
            "netgain is shutting down"
            if self._stopping.is_set()
            else f"the engine ended ({_how(code)})"
        )
        return was_ready, code

    def _refused(self, message: str) -> None:
        self._refusal = message

    def _kill(self) -> None:
        if self._process is not None and self._process.alive:
            self._process.kill()

    def _hopeless(self, failed_starts: int, code: int) -> str:
        assert self._process is not None
        return (
            f"the engine ended {failed_starts} times in a row before it was ready, "
            f"last with {_how(code)}. It said:\n{self._process.last_lines()}"
        )


def _how(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
