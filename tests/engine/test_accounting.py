"""What the ledger's work per step may cost."""

import time

from netgain.config import SchedulerSettings
from netgain.cost.step_time import StepLoad, StepTimeEstimator
from netgain.engine.accounting import ScheduledSlice, StepAccountant
from netgain.engine.messages import RequestId
from netgain.engine.request import Request
from netgain.engine.sampling_params import SamplingParams
from netgain.engine.step import Slice
from netgain.kv.prefix_index import KeyChain, PrefixRoot
from netgain.ledger.request_ledger import RequestLedger
from netgain.ledger.stages import LedgerStage

SEQUENCES = 16
CONTEXT = 64
STEP_NS = 100_000_000
"""A quick decode step of 16 sequences: 116 ms in docs/decisions/ledger-overhead.md."""


def decoding(index: int) -> ScheduledSlice:
    id_ = RequestId(f"r{index}")
    request = Request(
        id=id_,
        tokens=[0] * CONTEXT,
        prompt_tokens=CONTEXT,
        sampling=SamplingParams(),
        seed=0,
        limit_tokens=1 << 20,
        stop_ids=frozenset(),
        chain=KeyChain(PrefixRoot("test"), 16),
        ledger=RequestLedger(0),
    )
    return ScheduledSlice(request, Slice(id_, CONTEXT, 1, sample=True), 0, LedgerStage.DECODE)


def test_accounting_takes_less_than_one_percent_of_a_decode_step() -> None:
    accountant = StepAccountant(StepTimeEstimator(), SchedulerSettings().step_time_target_s)
    slices = [decoding(index) for index in range(SEQUENCES)]
    load = StepLoad.of([(CONTEXT, 1)] * SEQUENCES)
    rounds_s: list[float] = []
    step = 0
    for _ in range(10):
        # Whole fitting intervals, so that every round pays its fits; the best round, since on a
        # busy machine waiting for a core only ever adds.
        began = time.perf_counter()
        for _ in range(64):
            accountant.step_ended(slices, load, step * STEP_NS, (step + 1) * STEP_NS)
            step += 1
        rounds_s.append((time.perf_counter() - began) / 64)
    assert min(rounds_s) < 0.01 * STEP_NS / 1e9
