"""Starts `netgain serve` as a user would, and looks at it from outside."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import psutil
from openai import OpenAI
from prometheus_client.parser import text_string_to_metric_families

START_TIMEOUT_S = 60.0


class ServerUnderTest:
    """One `netgain serve` process on a free port."""

    def __init__(self, *flags: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "netgain", "serve", "--port", "0", *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        self.lines: list[str] = []
        self._http = httpx.Client()
        self.url = ""
        self._announced = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def wait_ready(self) -> None:
        if not self._announced.wait(START_TIMEOUT_S):
            raise AssertionError(f"the server did not get ready:\n{self.output}")
        if not self.url:
            raise AssertionError(f"the server ended before it was ready:\n{self.output}")

    def engine(self) -> psutil.Process:
        children = psutil.Process(self.pid).children(recursive=True)
        return next(child for child in children if "netgain.engine.process" in child.cmdline())

    def client(self, api_key: str = "none") -> OpenAI:
        return OpenAI(base_url=f"{self.url}/v1", api_key=api_key, max_retries=0, timeout=60.0)

    def get(self, path: str) -> httpx.Response:
        return self._http.get(f"{self.url}{path}")

    def metric(self, name: str, **labels: str) -> float:
        """A sample's value; 0 where it is not there yet."""
        text = self.get("/metrics").raise_for_status().text
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    return sample.value
        return 0.0

    def ended(self) -> int:
        """Waits for the process's end; returns its exit code."""
        code = self.process.wait(START_TIMEOUT_S)
        self._reader.join()
        return code

    def stop(self) -> None:
        self._http.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as output:
            for line in output:
                self.lines.append(line.rstrip())
                if line.startswith("ready at "):
                    self.url = line.split()[2]
                    self._announced.set()
        self._announced.set()


@contextmanager
def serving(*flags: str) -> Iterator[ServerUnderTest]:
    """A ready server, stopped at the end."""
    server = ServerUnderTest(*flags)
    try:
        server.wait_ready()
        yield server
    finally:
        server.stop()


def within(seconds: float, happens: Callable[[], bool]) -> bool:
    """Whether something comes true in time; looks again and again."""
    end = time.monotonic() + seconds
    pause = threading.Event()
    while time.monotonic() < end:
        if happens():
            return True
        pause.wait(0.02)
    return happens()
