"""`netgain serve` in its own processes: time to ready, memory, CPU seconds."""

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.server_process import ServerProcess
from benchmarks.peers.tree import ProcessTree
from benchmarks.peers.workloads import Answers

POOL_TOKENS = 4096
_ANSWER_TOKENS = 64
_STREAMS = 2


@dataclass(frozen=True, slots=True)
class Served:
    """What one server took.

    `ready_s`: from its start to the first 200 of `/ready`. `pss_bytes`: proportional set size of
    all its processes, with every token of its KV pool written once. `cpu_s`: CPU seconds per
    process, the one that was started first: until ready, and to answer.
    """

    ready_s: float
    pss_bytes: int
    cpu_ready_s: tuple[float, ...]
    cpu_answers_s: tuple[float, ...]
    answered_tokens: int


def serve_once(model: str, kv_bytes: int, options: Sequence[str]) -> Served:
    """Starts a server whose pool is `kv_bytes`, room for `POOL_TOKENS`, and fills that."""
    prompt = POOL_TOKENS // _STREAMS - _ANSWER_TOKENS - 16
    workload = Answers("pool", prompt, (_ANSWER_TOKENS,) * _STREAMS, ("pool",))
    command = [sys.executable, "-m", "netgain", "serve", "--model", model]
    limits = ["--max-model-len", str(POOL_TOKENS // _STREAMS), "--kv-memory", str(kv_bytes)]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "server.log"
        server = ServerProcess([*command, *limits, *options], {}, log, "/ready", model)
        try:
            at_ready = _cpu_s(server.tree)
            server.run(workload, 0)
            at_end = _cpu_s(server.tree)
            pss = server.tree.pss_bytes()
        finally:
            server.close()
    answering = tuple(end - begin for end, begin in zip(at_end, at_ready, strict=True))
    tokens = (prompt + _ANSWER_TOKENS) * _STREAMS
    return Served(server.ready_s, pss, at_ready, answering, tokens)


def _cpu_s(tree: ProcessTree) -> tuple[float, ...]:
    return tuple(process.cpu_s for process in tree.processes())
