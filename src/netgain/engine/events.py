"""What happens to the core loop, and what it wants done. No I/O in either."""

from dataclasses import dataclass
from typing import TypeAlias

from netgain.engine.messages import EngineRequest, FinishReason, RequestId, RequestOutput
from netgain.engine.step import Step, StepResult, Tables
from netgain.kv.events import KVEvent
from netgain.kv.prefix_index import BlockKey


@dataclass(frozen=True, slots=True)
class RequestArrived:
    """A validated request; the first `remote_tokens` tokens' KV comes from another replica."""

    request: EngineRequest
    remote_tokens: int = 0


@dataclass(frozen=True, slots=True)
class RequestAborted:
    """Nobody wants the rest."""

    request_id: RequestId
    reason: FinishReason = FinishReason.ABORT


@dataclass(frozen=True, slots=True)
class StepDone:
    """The oldest outstanding step ended."""

    result: StepResult


@dataclass(frozen=True, slots=True)
class KVLoadDone:
    """A `StartKVLoad` ended; on failure the tokens are computed instead."""

    request_id: RequestId
    ok: bool


@dataclass(frozen=True, slots=True)
class KVTransferDone:
    """A `StartKVTransfer` ended; on failure the tokens are computed instead."""

    request_id: RequestId
    ok: bool


@dataclass(frozen=True, slots=True)
class KVStoreDone:
    """A `StartKVStore` ended: its blocks need not be held for it any more."""

    blocks: Tables


@dataclass(frozen=True, slots=True)
class TimerFired:
    """A time asked for with `SetTimer` came."""


Event: TypeAlias = (
    RequestArrived
    | RequestAborted
    | StepDone
    | KVLoadDone
    | KVTransferDone
    | KVStoreDone
    | TimerFired
)


@dataclass(frozen=True, slots=True)
class SubmitStep:
    """Hand this step to the executor."""

    step: Step


@dataclass(frozen=True, slots=True)
class StartKVLoad:
    """Fill `blocks` with the content of `keys` from a lower tier; answer with `KVLoadDone`."""

    request_id: RequestId
    keys: tuple[BlockKey, ...]
    blocks: Tables


@dataclass(frozen=True, slots=True)
class StartKVTransfer:
    """Fill `blocks` with the request's KV from another replica; answer with `KVTransferDone`."""

    request_id: RequestId
    blocks: Tables


@dataclass(frozen=True, slots=True)
class StartKVStore:
    """Copy `blocks` to a lower tier under `keys`; answer with `KVStoreDone`."""

    keys: tuple[BlockKey, ...]
    blocks: Tables


@dataclass(frozen=True, slots=True)
class EmitOutputs:
    """New tokens and ends of requests."""

    outputs: tuple[RequestOutput, ...]


@dataclass(frozen=True, slots=True)
class PublishKVEvents:
    """Changes of the block pool's content, for whoever keeps an index of it."""

    events: tuple[KVEvent, ...]


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Send `TimerFired` at this time, or soon after."""

    at_ns: int


Action: TypeAlias = (
    SubmitStep
    | StartKVLoad
    | StartKVTransfer
    | StartKVStore
    | EmitOutputs
    | PublishKVEvents
    | SetTimer
)
