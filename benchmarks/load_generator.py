"""What the load generator sustains: lag, clock error and CPU time against the scripted server.

    python -m benchmarks.load_generator [--rates 100,500,1000] [--duration 6] [--json FILE|-]

Each request is a chat; its answer comes in 16 events of one token, the first 20 ms after the
request, the others 5 ms apart. The scripted server, one process on the same cores, says when it
gave each event to its socket: `event_error` is how much later the generator read it. `machine_gap`
is the longest time that the machine took a spinning process off its core within the second before:
lag of that size is the machine's own.
"""

import argparse
import itertools
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.report import show, write
from netgain.lab.arrivals import poisson
from netgain.lab.conversation import Conversation, Turn
from netgain.lab.generator import run_load
from netgain.lab.load_plan import LoadPlan, LoadProgress, OpenLoad
from netgain.lab.record import RequestRecord
from netgain.lab.scripted_server.answering import Served
from netgain.lab.scripted_server.script import EventKind, Script
from netgain.lab.target import Target, parse_url

_SCRIPT: Final = Script(first_s=0.02, gap_s=0.005, tokens=16)
_PROMPT: Final = "word " * 200
_SHOWN: Final = (
    *("rate", "workers", "machine_gap_ms", "lag_p99_ms"),
    *("event_error_p99_ms", "generator_cores", "server_cores"),
)


class Collected:
    """An observer that keeps everything."""

    def __init__(self) -> None:
        self.records: list[RequestRecord] = []
        self.started_unix_s = 0.0

    def started(self, started_unix_s: float) -> None:
        """The run begins."""
        self.started_unix_s = started_unix_s

    def record(self, record: RequestRecord) -> None:
        """A request ended."""
        self.records.append(record)

    def progress(self, progress: LoadProgress) -> None:
        """Not shown: that would cost time."""


def conversations() -> Iterator[Conversation]:
    """Without end."""
    for number in itertools.count():
        turn = Turn(text=f"{number} {_PROMPT}", max_tokens=16)
        yield Conversation(request_class="chat", turns=(turn,))


def measure(rate: float, duration_s: float, workers: int | None) -> dict[str, object]:
    """One run against a server of its own."""
    machine_gap_s = _machine_gap_s()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "served.jsonl"
        script = msgspec.json.encode(_SCRIPT).decode()
        server = subprocess.Popen(
            [
                *(sys.executable, "-m", "netgain.lab.scripted_server", "--port", "0"),
                *("--script", script, "--log", str(log)),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert server.stdout is not None
            url = server.stdout.readline().split()[-1]
            target = Target(endpoint=parse_url(url), model="scripted")
            plan = LoadPlan(
                target=target,
                load=OpenLoad(poisson(rate)),
                duration_s=duration_s,
                seed=1,
                workers=workers,
            )
            seen = Collected()
            outcome = run_load(plan, conversations(), seen)
            server_cpu_s = _cpu_s(server.pid)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait()
        served = msgspec.json.Decoder(Served).decode_lines(log.read_bytes())
    assert outcome.lag is not None
    errors_s = _event_errors_s(seen.records, served)
    return {
        "rate": rate,
        "machine_gap_ms": round(machine_gap_s * 1e3, 3),
        "workers": outcome.workers,
        "requests_per_s": round(outcome.requests / duration_s, 1),
        "failed": outcome.failed,
        "lag_mean_ms": round(outcome.lag.mean_s * 1e3, 3),
        "lag_p99_ms": round(outcome.lag.p99_s * 1e3, 3),
        "lag_max_ms": round(outcome.lag.max_s * 1e3, 3),
        "e2e_mean_ms": round((outcome.lag.mean_e2e_s or 0.0) * 1e3, 1),
        "valid": outcome.lag.valid,
        "event_error_p50_ms": round(statistics.median(errors_s) * 1e3, 3),
        "event_error_p99_ms": round(statistics.quantiles(errors_s, n=100)[98] * 1e3, 3),
        "generator_cores": round(outcome.cpu_s / outcome.length_s, 2),
        "server_cores": round(server_cpu_s / outcome.length_s, 2),
    }


def _event_errors_s(records: Sequence[RequestRecord], served: Sequence[Served]) -> list[float]:
    """How much later each content event was read than written, but for a constant.

    Records count from the run's zero, the server from its machine's boot: the smallest difference
    of all is taken for that constant.
    """
    by_id = {f"scripted-{one.index}": one for one in served}
    differences = [
        event.at_s - written.at_s
        for record in records
        for event, written in zip(
            record.events,
            [e for e in by_id[record.request_id or ""].events if e.kind is EventKind.CONTENT],
            strict=True,
        )
    ]
    least = min(differences)
    return [difference - least for difference in differences]


def _machine_gap_s() -> float:
    longest_s, before_s = 0.0, time.monotonic()
    end_s = before_s + 1.0
    while before_s < end_s:
        now_s = time.monotonic()
        longest_s, before_s = max(longest_s, now_s - before_s), now_s
    return longest_s


def _cpu_s(pid: int) -> float:
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Runs and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rates", default="100,500,1000")
    parser.add_argument("--duration", type=float, default=6.0)
    parser.add_argument("--workers", type=int, default=None)
    parser.add_argument("--json", type=Path, default=None)
    arguments = parser.parse_args()
    rates = [float(rate) for rate in arguments.rates.split(",")]
    rows = [measure(rate, arguments.duration, arguments.workers) for rate in rates]
    shown = [{name: row[name] for name in _SHOWN} for row in rows]
    show("Load generator against the scripted server (measured)", shown)
    write(arguments.json, rows)


if __name__ == "__main__":
    main()
