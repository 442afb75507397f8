"""What the ledger costs per decode step, against the decode step itself.

    python -m benchmarks.ledger_overhead [--rounds 5] [--json FILE|-]

The ledger's work at commit (cost shares, interference, stages, counters, step-time model) is timed
on its own, for as many requests as the step holds, and divided by the default model's measured
step time at that batch size. Both in one process, alternately; medians of the rounds.
"""

import argparse
import statistics
import time
from pathlib import Path
from typing import Final

from benchmarks.report import show, write
from netgain import LLM, SamplingParams
from netgain.config import SchedulerSettings
from netgain.cost.step_time import StepLoad
from netgain.engine.accounting import ScheduledSlice, StepAccountant
from netgain.engine.messages import RequestId
from netgain.engine.request import Request
from netgain.engine.step import Slice
from netgain.kv.prefix_index import KeyChain, PrefixRoot
from netgain.ledger.request_ledger import RequestLedger
from netgain.ledger.stages import LedgerStage

_BATCHES: Final = (1, 4, 16, 64)
_CONTEXT: Final = 64
_REPEATS: Final = 500


def ledger_s(llm: LLM, batch: int) -> float:
    """Seconds of ledger work per decode step of `batch` requests."""
    accountant = StepAccountant(llm.copy_estimator(), SchedulerSettings().step_time_target_s)
    requests = [
        Request(
            id=RequestId(f"r{index}"),
            tokens=[0] * _CONTEXT,
            prompt_tokens=_CONTEXT,
            sampling=SamplingParams(),
            seed=0,
            limit_tokens=1 << 20,
            stop_ids=frozenset(),
            chain=KeyChain(PrefixRoot("benchmark"), 16),
            ledger=RequestLedger(0),
        )
        for index in range(batch)
    ]
    slices = [
        ScheduledSlice(r, Slice(r.id, _CONTEXT, 1, sample=True), 0, LedgerStage.DECODE)
        for r in requests
    ]
    load = StepLoad.of([(_CONTEXT, 1)] * batch)
    step_ns = 20_000_000
    began = time.perf_counter()
    for repeat in range(_REPEATS):
        accountant.step_ended(slices, load, repeat * step_ns, (repeat + 1) * step_ns)
    return (time.perf_counter() - began) / _REPEATS


def decode_step_s(llm: LLM, batch: int, tokens: int = 24) -> float:
    """Measured device seconds per decode step of `batch` requests."""
    prompts = [[100 + index] * 8 for index in range(batch)]
    params = SamplingParams(temperature=0.0, max_tokens=tokens, ignore_eos=True)
    llm.generate(prompts, SamplingParams(temperature=0.0, max_tokens=1))
    before = llm.counters().busy_s, llm.counters().steps
    llm.generate(prompts, params)
    after = llm.counters()
    return (after.busy_s - before[0]) / (after.steps - before[1])


def main() -> None:
    """Runs and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, default=None)
    arguments = parser.parse_args()
    rows: list[dict[str, object]] = []
    with LLM(max_model_len=512) as llm:
        for batch in _BATCHES:
            rounds = [
                (ledger_s(llm, batch), decode_step_s(llm, batch)) for _ in range(arguments.rounds)
            ]
            ledger = statistics.median(pair[0] for pair in rounds)
            step = statistics.median(pair[1] for pair in rounds)
            rows.append(
                {
                    "batch": batch,
                    "ledger_us": ledger * 1e6,
                    "decode_step_ms": step * 1e3,
                    "overhead_percent": 100 * ledger / step,
                }
            )
    show("Ledger against decode step (measured)", rows)
    write(arguments.json, rows)


if __name__ == "__main__":
    main()
