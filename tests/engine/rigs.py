"""Ready-made rigs, and what tests ask of a finished one."""

from netgain.config import SchedulerSettings
from netgain.cost.step_time import StepTimeModel
from netgain.engine.messages import FinishReason, RequestId
from netgain.ledger.record import LedgerRecord
from netgain.ledger.stages import LedgerStage
from netgain.sim.clock import VirtualClock
from tests.engine.device_oracle import OracleTier, Rig, expected_answer

STEP_TIME = StepTimeModel(base_s=0.02, slice_s=5e-4, token_s=1e-3, context_s=1e-6, pair_s=1e-8)
TARGET_S = 0.2


def make_rig(
    *,
    seqs: int = 8,
    budget: int = 2048,
    target_s: float = TARGET_S,
    outstanding: int = 1,
    blocks: int = 256,
    block_tokens: int = 8,
    max_model_len: int = 1024,
    groups: int = 1,
    prefix_cache: bool = True,
    tier: OracleTier | None = None,
    step_time: StepTimeModel | None = STEP_TIME,
    clock: VirtualClock | None = None,
) -> Rig:
    return Rig(
        SchedulerSettings(
            max_num_seqs=seqs,
            max_num_batched_tokens=budget,
            step_time_target_s=target_s,
            max_outstanding_steps=outstanding,
        ),
        blocks=blocks,
        block_tokens=block_tokens,
        max_model_len=max_model_len,
        groups=groups,
        prefix_cache=prefix_cache,
        tier=tier,
        step_time=step_time,
        clock=clock,
    )


def prompt(length: int, first: int = 0) -> list[int]:
    """Tokens that differ from those of another `first` at once."""
    return [(first * 13 + position * 7) % 50 for position in range(length)]


def reason(rig: Rig, request: RequestId) -> FinishReason | None:
    return rig.ended[request].finish_reason


def ledger(rig: Rig, request: RequestId) -> LedgerRecord:
    record = rig.ended[request].ledger
    assert record is not None
    return record


def stages(rig: Rig, request: RequestId) -> list[LedgerStage]:
    return [interval.stage for interval in ledger(rig, request).stages]


def assert_right_answer(rig: Rig, request: RequestId) -> None:
    expected = expected_answer(rig.requests[request], rig.core.max_model_len)
    assert rig.outputs[request] == expected
