"""An OpenAI-compatible server as its own process, asked over HTTP."""

import os
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import httpx

from benchmarks.peers.failure import PeerError, last_words
from benchmarks.peers.http_load import stream_all
from benchmarks.peers.protocol import Times
from benchmarks.peers.tree import ProcessTree, end_with_parent
from benchmarks.peers.workloads import Workload

_START_LIMIT_S: Final = 900.0
_GOODBYE_S: Final = 20.0
_POLL_S: Final = 0.02


class ServerProcess:
    """A server started with `command` plus host and port; ready when `ready_path` answers 200.

    Raises `PeerError` when it cannot start or a stream does not bring what was asked for.
    """

    def __init__(
        self,
        command: Sequence[str],
        variables: Mapping[str, str],
        log: Path,
        ready_path: str,
        model: str,
    ) -> None:
        self._model = model
        log.parent.mkdir(parents=True, exist_ok=True)
        port = _free_port()
        self._url = f"http://127.0.0.1:{port}"
        began = time.perf_counter()
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [*command, "--host", "127.0.0.1", "--port", str(port)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=os.environ | variables,
                preexec_fn=end_with_parent,
            )
        self.tree = ProcessTree(self._process.pid)
        # Names, not where this machine keeps them.
        self.about = {"command": " ".join(Path(part).name for part in command)}
        while not self._answers(ready_path):
            if self._process.poll() is not None:
                raise PeerError(
                    f"exit code {self._process.returncode}: {last_words(log) or 'it said nothing'}"
                )
            if time.perf_counter() - began > _START_LIMIT_S:
                self.close()
                raise PeerError(f"not ready within {_START_LIMIT_S:.0f} s")
            time.sleep(_POLL_S)
        self.ready_s = time.perf_counter() - began

    @property
    def url(self) -> str:
        """Where it answers."""
        return self._url

    def run(self, workload: Workload, round_: int) -> list[Times]:
        """All sequences of one workload as concurrent streams."""
        return stream_all(self._url, self._model, workload.prompts(round_), workload.new_tokens)

    def close(self) -> None:
        """Asks the server to end, then makes it."""
        self.tree.resume()
        helpers = [ProcessTree(pid) for pid in self.tree.pids()[1:]]
        self._process.terminate()
        try:
            self._process.wait(_GOODBYE_S)
        except subprocess.TimeoutExpired:
            self.tree.kill()
            self._process.wait()
        for helper in helpers:
            helper.kill()

    def _answers(self, path: str) -> bool:
        try:
            return httpx.get(self._url + path, timeout=5.0).status_code == httpx.codes.OK
        except httpx.HTTPError:
            return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
