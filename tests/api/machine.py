"""Who uses this machine's cores: tests of time need to know whether it was theirs."""

import os
import socket
import subprocess
import sys
import time
from typing import Final

import psutil


def busy_s() -> float:
    """CPU seconds of this machine, all cores, time stolen by its host included."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - times.iowait - times.guest - times.guest_nice)


def used_s(pid: int) -> float:
    """CPU seconds of a process and its children."""
    process = psutil.Process(pid)
    family = [process, *process.children(recursive=True)]
    return float(sum(sum(member.cpu_times()[:2]) for member in family))


class Neighbours:
    """Who else was busy since this was made: cores, less this process's and its children's."""

    def __init__(self) -> None:
        self._began_s, self._busy_s = time.monotonic(), busy_s()
        self._ours_s = used_s(os.getpid())

    def cores(self) -> float:
        """On average until now."""
        seconds = time.monotonic() - self._began_s
        others_s = busy_s() - self._busy_s - used_s(os.getpid()) + self._ours_s
        return others_s / seconds


class Echo:
    """Another process that answers each byte: how long it takes is what this machine, and whoever
    shares it, adds to a round trip between two processes that do nothing.
    """

    _SCRIPT: Final = (
        "import socket, sys\n"
        "peer = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n"
        "peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)\n"
        "while byte := peer.recv(1): peer.sendall(byte)\n"
    )

    def __enter__(self) -> "Echo":
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = str(listener.getsockname()[1])
            self._process = subprocess.Popen([sys.executable, "-c", self._SCRIPT, port])
            self._peer, _ = listener.accept()
        self._peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self

    def __exit__(self, *_: object) -> None:
        self._peer.close()
        self._process.wait(30)

    def round_trip_s(self) -> float:
        """Seconds from a byte to its echo."""
        began_s = time.perf_counter()
        self._peer.sendall(b"x")
        assert self._peer.recv(1) == b"x"
        return time.perf_counter() - began_s
