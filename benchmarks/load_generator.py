"""What the load generator sustains: lag, clock error and CPU time against the scripted server.

    python -m benchmarks.load_generator [--rates 100,500,1000] [--duration 6] [--rounds 5]
        [--json FILE|-]

Each request is a chat; its answer comes in 16 events of one token, the first 20 ms after the
request, the others 5 ms apart. The scripted server, one process on the same cores, says when it
gave each event to its socket: `event_error` is how much later the generator read it. `machine_lost`
is the most of any 20 ms that a spinning process lost against its usual speed in the 3 seconds
before (another virtual machine on the same cores, say): lag of that size is the machine's own.
Shown are the medians of the rounds, and the lag of the best; the JSON has every round.
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
from typing import Final, TypeAlias

import msgspec
import numpy as np

from benchmarks.report import show, write
from netgain.lab.arrivals import poisson
from netgain.lab.conversation import Conversation, Turn
from netgain.lab.generator import run_load
from netgain.lab.load_plan import LoadPlan, LoadProgress, OpenLoad
from netgain.lab.metrics.lag import Lag
from netgain.lab.record import RequestRecord
from netgain.lab.run_header import LoadKind
from netgain.lab.scripted_server.answering import Served
from netgain.lab.scripted_server.script import EventKind, Script
from netgain.lab.target import Target, parse_url

Measured: TypeAlias = dict[str, float]

_SCRIPT: Final = Script(first_s=0.02, gap_s=0.005, tokens=16)
_WATCH_S: Final = 3.0
_WINDOW_S: Final = 0.02
_PROMPT: Final = "word " * 200
_MEDIANS: Final = (
    *("machine_lost_ms", "lag_p99_ms", "event_error_p99_ms"),
    *("generator_cores", "server_cores"),
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


def measure(rate: float, duration_s: float, workers: int | None) -> Measured:
    """One run against a server of its own."""
    machine_lost_s = _machine_lost_s()
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
    lag = _lag(seen.records)
    errors_s = _event_errors_s(seen.records, served)
    return {
        "rate": rate,
        "machine_lost_ms": round(machine_lost_s * 1e3, 3),
        "workers": outcome.workers,
        "requests_per_s": round(outcome.requests / duration_s, 1),
        "failed": outcome.failed,
        "lag_mean_ms": round(lag.mean_s * 1e3, 3),
        "lag_p99_ms": round(lag.p99_s * 1e3, 3),
        "lag_max_ms": round(lag.maximum_s * 1e3, 3),
        "valid": lag.valid,
        "event_error_p50_ms": round(statistics.median(errors_s) * 1e3, 3),
        "event_error_p99_ms": round(statistics.quantiles(errors_s, n=100)[98] * 1e3, 3),
        "generator_cores": round(outcome.cpu_s / outcome.length_s, 2),
        "server_cores": round(server_cpu_s / outcome.length_s, 2),
    }


def _lag(records: Sequence[RequestRecord]) -> Lag:
    whole = [(r.intended_s, r.sent_s, r.last_token_s) for r in records if r.failure is None]
    intended_s, sent_s, last_token_s = np.array(whole, dtype=float).T
    lag = Lag.of(LoadKind.OPEN, sent_s - intended_s, last_token_s - intended_s)
    assert lag is not None
    return lag


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


def _machine_lost_s() -> float:
    stamps_s: list[float] = []
    end_s = time.monotonic() + _WATCH_S
    while not stamps_s or stamps_s[-1] < end_s:
        for _ in range(100):
            pass
        stamps_s.append(time.monotonic())
    steps_s = np.diff(stamps_s)
    lost_s = np.cumsum(np.maximum(0.0, steps_s - np.median(steps_s)))
    starts_s = np.asarray(stamps_s[1:])
    ends = np.searchsorted(starts_s, starts_s + _WINDOW_S) - 1
    return float(np.max(lost_s[ends] - lost_s))


def _cpu_s(pid: int) -> float:
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Runs and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rates", default="100,500,1000")
    parser.add_argument("--duration", type=float, default=6.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=None)
    parser.add_argument("--json", type=Path, default=None)
    arguments = parser.parse_args()
    rates = [float(rate) for rate in arguments.rates.split(",")]
    rounds = range(1, arguments.rounds + 1)
    rows = [
        {"round": number, **measure(rate, arguments.duration, arguments.workers)}
        for number in rounds
        for rate in rates
    ]
    shown = [_medians(rate, [row for row in rows if row["rate"] == rate]) for rate in rates]
    show("Load generator against the scripted server (measured)", shown)
    write(arguments.json, rows)


def _medians(rate: float, rows: Sequence[Measured]) -> Measured:
    return {
        "rate": rate,
        **{name: statistics.median(float(row[name]) for row in rows) for name in _MEDIANS},
        "lag_p99_best_ms": min(float(row["lag_p99_ms"]) for row in rows),
    }


if __name__ == "__main__":
    main()
