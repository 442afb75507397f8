"""Turns: who runs when, and what came out. One at a time, all others stopped."""

import statistics
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from benchmarks.peers.failure import PeerError
from benchmarks.peers.peers import SMALL_SIZE, Model, Peer, Running
from benchmarks.peers.results import Failure, Results, Unit
from benchmarks.peers.tree import busy_s
from benchmarks.peers.workloads import FOOTPRINT, WARM_UP, NotComparableError, Workload

READY_ROW: Final = "start to ready"
SERVER_READY_ROW: Final = "server, start to ready"
MEMORY_ROW: Final = "memory, KV of 4096 tokens"


@dataclass(frozen=True, slots=True)
class _Player:
    peer: Peer
    running: Running


class Contest:
    """Runs participants against each other; everything measured is in `results`.

    `about` says what each participant is, `turns` lists every turn with the cores that others on
    this machine kept busy meanwhile.
    """

    def __init__(
        self,
        model: Model,
        options: Mapping[str, Mapping[str, object]],
        workloads: Collection[str],
        rounds: int,
    ) -> None:
        self.results = Results()
        self.about: dict[str, dict[str, str]] = {}
        self.turns: list[dict[str, object]] = []
        self._others_cores: list[float] = []
        self._model = model
        self._options = options
        self._workloads = workloads
        self._rounds = rounds

    @property
    def others_cores(self) -> float:
        """Cores that other processes kept busy during the median turn."""
        return statistics.median(self._others_cores) if self._others_cores else 0.0

    def start_and_memory(self, peers: Sequence[Peer]) -> None:
        """Each alone: seconds until it has answered, and its memory after a long prompt."""
        for peer in peers:
            if peer.variant:
                continue
            try:
                running = peer.start(self._model, self._options_of(peer), SMALL_SIZE)
            except PeerError as failure:
                self._fail(peer, "start", failure, (READY_ROW,), Unit.SECONDS)
                self._fail(peer, "start", failure, (MEMORY_ROW,), Unit.MEMORY)
                continue
            try:
                self.results.add(READY_ROW, peer.column, running.ready_s, Unit.SECONDS)
                running.run(FOOTPRINT, 0)
                memory_mb = running.tree.pss_bytes() / 1e6
                self.results.add(MEMORY_ROW, peer.column, memory_mb, Unit.MEMORY)
            except PeerError as failure:
                self._fail(peer, "start", failure, (MEMORY_ROW,), Unit.MEMORY)
            finally:
                running.close()

    def alternate(self, peers: Sequence[Peer]) -> None:
        """Starts all, then goes round: each workload of each round by one after the other."""
        with ExitStack() as stack:
            wanted = [peer for peer in peers if self._rows_of(peer)]
            players = [player for peer in wanted if (player := self._started(peer, stack))]
            workloads = list(dict.fromkeys(w for peer in peers for w in peer.workloads))
            for round_ in range(self._rounds):
                for workload in workloads:
                    if workload.name not in self._workloads:
                        continue
                    if workload.most_rounds is not None and round_ >= workload.most_rounds:
                        continue
                    # Nobody always comes first, or always after the same neighbour.
                    first = round_ % max(1, len(players))
                    for player in players[first:] + players[:first]:
                        if workload in player.peer.workloads:
                            self._turn(player, workload, round_)

    def _started(self, peer: Peer, stack: ExitStack) -> _Player | None:
        _say(f"{peer.name}: starting")
        try:
            running = peer.start(self._model, self._options_of(peer))
        except PeerError as failure:
            self._fail(peer, "start", failure, self._rows_of(peer))
            if peer.server:
                self._fail(peer, "start", failure, (SERVER_READY_ROW,), Unit.SECONDS)
            return None
        stack.callback(running.close)
        if peer.server:
            self.results.add(SERVER_READY_ROW, peer.column, running.ready_s, Unit.SECONDS)
        elif READY_ROW in self.results.rounds and not peer.variant:
            self.results.add(READY_ROW, peer.column, running.ready_s, Unit.SECONDS)
        idle = running.tree.idle_cores()
        running.tree.pause()
        self.about[peer.name] = running.about | {
            "ready_s": f"{running.ready_s:.2f}",
            "idle_cores": f"{idle:.2f}",
        }
        return _Player(peer, running)

    def _turn(self, player: _Player, workload: Workload, round_: int) -> None:
        tree = player.running.tree
        tree.resume()
        try:
            player.running.run(WARM_UP, round_)
            began_s, busy, mine = time.perf_counter(), busy_s(), tree.cpu_s()
            times = player.running.run(workload, round_)
            wall_s = time.perf_counter() - began_s
            # Both clocks tick in hundredths: short turns may come out a little below nothing.
            others = max(0.0, busy_s() - busy - (tree.cpu_s() - mine)) / wall_s
            speeds = workload.speeds(times)
        except (PeerError, NotComparableError) as failure:
            self._fail(player.peer, workload.name, failure, workload.rows)
            return
        finally:
            tree.pause()
        self._others_cores.append(others)
        for row, speed in speeds.items():
            self.results.add(row, player.peer.column, speed)
        self.turns.append(
            {
                "round": round_,
                "workload": workload.name,
                "peer": player.peer.name,
                "wall_s": round(wall_s, 3),
                "others_cores": round(others, 2),
                "tok_s": {row: round(speed, 1) for row, speed in speeds.items()},
            }
        )
        shown = ", ".join(f"{row} {speed:.0f} tok/s" for row, speed in speeds.items())
        _say(f"round {round_ + 1}, {player.peer.name}: {shown}")

    def _rows_of(self, peer: Peer) -> list[str]:
        return [row for w in peer.workloads if w.name in self._workloads for row in w.rows]

    def _options_of(self, peer: Peer) -> Mapping[str, object]:
        return self._options.get(peer.options_name, {})

    def _fail(
        self,
        peer: Peer,
        doing: str,
        failure: Exception,
        rows: Sequence[str],
        unit: Unit = Unit.SPEED,
    ) -> None:
        _say(f"{peer.name}, {doing}: {failure}")
        self.results.fail(peer.column, Failure(peer.name, doing, str(failure)), rows, unit)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
