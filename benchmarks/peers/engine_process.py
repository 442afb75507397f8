"""One engine behind its adapter process."""

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from benchmarks.peers.failure import PeerError, last_words
from benchmarks.peers.protocol import LoadRequest, Times
from benchmarks.peers.tree import ProcessTree, end_with_parent
from benchmarks.peers.workloads import Workload

JSON = Any
"""What `json.loads` gives: an adapter's answer, whose shape the request decides."""
_START_LIMIT_S: Final = 900.0
_TURN_LIMIT_S: Final = 300.0
_ROOT: Final = Path(__file__).parents[2]
"""Adapters are started with `-m`, from the repository."""
_GOODBYE_S: Final = 15.0


class EngineProcess:
    """An adapter started with `command`; what its libraries print goes to `log`.

    Raises `PeerError` from every call when the process died, is stuck or answered an error.
    """

    def __init__(
        self, command: Sequence[str], variables: Mapping[str, str], log: Path, request: LoadRequest
    ) -> None:
        self._log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        began = time.perf_counter()
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=os.environ | variables,
                cwd=_ROOT,
                preexec_fn=end_with_parent,
            )
        self.tree = ProcessTree(self._process.pid)
        self._unread = b""
        try:
            about = self._ask(request.line(), _START_LIMIT_S)
        except PeerError:
            self.close()
            raise
        self.ready_s = time.perf_counter() - began
        self.about: dict[str, str] = about

    def run(self, workload: Workload, round_: int) -> list[Times]:
        """Asks for one workload."""
        message = {
            "do": "generate",
            "prompts": workload.prompts(round_),
            "tokens": workload.new_tokens,
        }
        answer = self._ask(json.dumps(message), _TURN_LIMIT_S)
        return [Times(*pair) for pair in answer]

    def close(self) -> None:
        """Ends the process, by force if it does not go by itself."""
        self.tree.resume()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_GOODBYE_S)
        self.tree.kill()
        self._process.wait()
        self._process.stdout.close()

    def _ask(self, line: str, limit_s: float) -> JSON:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._death() from None
        answer = json.loads(self._line(time.monotonic() + limit_s, limit_s))
        if "error" in answer:
            raise PeerError(answer["error"])
        return answer["ok"]

    def _line(self, until: float, limit_s: float) -> bytes:
        assert self._process.stdout is not None
        while b"\n" not in self._unread:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._process.stdout], [], [], left)[0]:
                raise PeerError(f"no answer within {limit_s:.0f} s")
            got = os.read(self._process.stdout.fileno(), 1 << 16)
            if not got:
                raise self._death()
            self._unread += got
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _death(self) -> PeerError:
        try:
            code = self._process.wait(_GOODBYE_S)
        except subprocess.TimeoutExpired:
            return PeerError("closed its answers without ending")
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return PeerError(f"{how}: {last_words(self._log) or 'it said nothing'}")
