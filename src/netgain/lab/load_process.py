"""The leading process's side of one worker."""

import contextlib
import socket
import subprocess
import sys
from typing import Final

import msgspec

from netgain.lab.load_messages import FromWorker, ToWorker, Wants

_decode: Final = msgspec.json.Decoder(FromWorker).decode
_encode: Final = msgspec.json.Encoder().encode
_READ_BYTES: Final = 1 << 20
_END_S: Final = 5.0


class LoadProcess:
    """A worker process, started. `wants`: conversations it can take; `alive`: until its end."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self._socket = ours
        self._buffer = b""
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "netgain.lab.load_worker", str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
            )
        self.wants = 0
        self.ready = False
        self.alive = True
        self.said_bye = False

    def fileno(self) -> int:
        """Of the socket, for a selector."""
        return self._socket.fileno()

    def tell(self, message: ToWorker) -> None:
        """Says something; nothing happens if it is gone, which reading will tell."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(_encode(message) + b"\n")

    def heard(self) -> list[FromWorker]:
        """What it said, read once the socket is readable."""
        try:
            data = self._socket.recv(_READ_BYTES)
        except ConnectionResetError:
            data = b""
        if not data:
            self.alive = False
            return []
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        messages = [_decode(line) for line in lines]
        for message in messages:
            if isinstance(message, Wants):
                self.wants += message.count
                self.ready = True
        return messages

    def end(self) -> None:
        """Waits for its end, and hastens it if it takes long."""
        self._socket.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Ends it now."""
        self._socket.close()
        self._process.kill()
        self._process.wait()
