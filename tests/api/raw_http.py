"""HTTP over a bare socket: a client that can leave at any moment, and knows its own times."""

import json
import socket
import time
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True)
class RawAnswer:
    """`e2e_s`: from just before the first byte was sent until after the last one was read."""

    status: int
    headers: dict[str, str]
    body: bytes
    e2e_s: float


class RawRequest:
    """One POST on a connection of its own."""

    def __init__(self, port: int, path: str, fields: dict[str, object]) -> None:
        body = json.dumps(fields).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._started = time.monotonic()
        self._socket.sendall(head.encode() + body)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        """Closes the connection, whatever is still to come."""
        self._socket.close()

    def read_until(self, mark: bytes) -> bytes:
        """Reads until `mark` was seen, or the end."""
        seen = b""
        while mark not in seen and (data := self._socket.recv(65536)):
            seen += data
        return seen

    def answer(self) -> RawAnswer:
        """Reads to the end."""
        data = b""
        while chunk := self._socket.recv(65536):
            data += chunk
        e2e_s = time.monotonic() - self._started
        head, _, body = data.partition(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        return RawAnswer(int(status.split()[1]), headers, body, e2e_s)
