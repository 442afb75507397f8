"""One engine process: its command, its pipes, its last words."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from netgain.config import EngineSettings

_MAX_BASE: Final = 60
_KEPT_LINES: Final = 20
_KEPT_CHARS: Final = 500


class PrivateDirectory:
    """A temporary directory that only this user can enter, for the sockets of the engines."""

    def __init__(self) -> None:
        base = tempfile.gettempdir()
        # Unix socket paths end at about 100 bytes: a long TMPDIR would not leave room.
        short = base if len(base) <= _MAX_BASE else "/tmp"  # noqa: S108 - mkdtemp is private
        self.path = Path(tempfile.mkdtemp(prefix="netgain-", dir=short))
        self._lives = 0

    def next_endpoint(self) -> str:
        """A ZeroMQ endpoint that no engine has used yet."""
        self._lives += 1
        name = "engine.sock" if self._lives == 1 else f"engine-{self._lives}.sock"
        return f"ipc://{self.path / name}"

    def remove(self) -> None:
        """Deletes the directory and the sockets in it."""
        shutil.rmtree(self.path, ignore_errors=True)


def engine_command(endpoint: str, identity: str) -> list[str]:
    """The command line of an engine that connects to `endpoint` under `identity`."""
    return [
        *(sys.executable, "-m", "netgain.engine.process"),
        *("--connect", endpoint, "--identity", identity),
    ]


class EngineProcess:
    """A started engine process; it reads its settings, one line of JSON, from standard input.

    Its standard input stays open as long as this process lives: its end tells the engine that the
    parent is gone. What it prints is passed on to standard error, and the last lines are kept.
    """

    def __init__(self, command: Sequence[str], settings: EngineSettings, endpoint: str) -> None:
        self.endpoint = endpoint
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # Ctrl-C in a terminal goes to the whole foreground group; the engine must outlive it
            # until its requests are finished.
            start_new_session=True,
        )
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._echo = threading.Thread(target=self._pass_on, name="engine-output", daemon=True)
        self._echo.start()
        assert self._process.stdin is not None
        # A process that died at once is noticed by whoever waits for it.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(settings.model_dump_json().encode() + b"\n")
            self._process.stdin.flush()

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def wait(self) -> int:
        """Blocks until the process ended and said all it had to say; returns its exit code."""
        code = self._process.wait()
        self._echo.join(timeout=1.0)
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        return code

    def terminate(self) -> None:
        """Asks it to end (SIGTERM)."""
        self._process.terminate()

    def kill(self) -> None:
        """Ends it (SIGKILL)."""
        self._process.kill()

    def last_lines(self) -> str:
        """What it printed last, for an error message."""
        return "\n".join(self._lines)

    def _pass_on(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output:
            for raw in output:
                line = raw.decode("utf-8", "replace").rstrip()
                self._lines.append(line[:_KEPT_CHARS])
                with contextlib.suppress(OSError):
                    os.write(2, raw)
