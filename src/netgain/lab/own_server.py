"""A netgain server of one's own, for the time of an experiment."""

import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import httpx

from netgain.errors import NetgainError

_READY_S: Final = 120.0
_END_S: Final = 15.0
_POLL_S: Final = 0.05


class OwnServerError(NetgainError):
    """The server did not get ready; the message holds its own error."""


@contextmanager
def own_server(model: str, flags: Sequence[str] = ()) -> Iterator[str]:
    """Its URL, once it is ready; it ends with the block, and with this process if that is killed.

    Raises `OwnServerError`.
    """
    port = _free_port()
    command = [sys.executable, "-m", "netgain.lab.tied_server", "--model", model]
    command += ["--port", str(port)]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [*command, *flags], stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT
        )
        url = f"http://127.0.0.1:{port}"
        try:
            _wait_until_ready(process, url)
            yield url
        except _NotReadyError as error:
            log.seek(0)
            said = log.read().decode(errors="replace").strip()
            # Its error is the last thing it says, and may have several lines.
            reason = said[said.rfind("netgain: ") :].removeprefix("netgain: ") if said else error
            raise OwnServerError(
                f"netgain serve {' '.join(flags)} did not get ready: {reason}"
            ) from error
        finally:
            process.terminate()
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            assert process.stdin is not None
            process.stdin.close()


class _NotReadyError(Exception):
    pass


def _wait_until_ready(process: "subprocess.Popen[bytes]", url: str) -> None:
    until = time.monotonic() + _READY_S
    while time.monotonic() < until:
        if process.poll() is not None:
            raise _NotReadyError(f"it ended with {process.returncode}")
        try:
            if httpx.get(f"{url}/ready", timeout=2.0, trust_env=False).is_success:
                return
        except httpx.HTTPError:
            pass
        time.sleep(_POLL_S)
    raise _NotReadyError(f"not within {_READY_S:.0f} s")


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
