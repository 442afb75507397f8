"""The engine's core loop, without I/O: events in, actions out.

The same core runs under a real executor and clock and under a heap of virtual events; it never
sleeps, never reads a socket, and asks the clock only to time its own cache look-ups.
"""

import heapq
from collections.abc import Callable, Iterable, Sequence
from typing import assert_never

from netgain.config import SchedulerSettings
from netgain.cost.step_time import StepTimeEstimator
from netgain.engine.accounting import StepAccountant
from netgain.engine.clock import Clock
from netgain.engine.events import (
    Action,
    EmitOutputs,
    Event,
    KVLoadDone,
    KVStoreDone,
    KVTransferDone,
    PublishKVEvents,
    RequestAborted,
    RequestArrived,
    SetTimer,
    StepDone,
    SubmitStep,
    TimerFired,
)
from netgain.engine.messages import EngineRequest, FinishReason, RequestId, RequestOutput
from netgain.engine.request import Request, RequestStatus
from netgain.engine.sampling_params import sample_seed
from netgain.engine.scheduler import Scheduler, TierIndex
from netgain.errors import InvalidRequestError
from netgain.kv.manager import KVManager
from netgain.kv.prefix_index import KeyChain, PrefixRoot
from netgain.ledger.counters import EngineCounters
from netgain.ledger.request_ledger import RequestLedger
from netgain.ledger.stages import LedgerStage


class EngineCore:
    """Requests, scheduler and ledger of one engine.

    `fingerprint` names the model's KV; `draw_seed` gives the seed of a request that states none.
    Without `vocab_size` token ids are taken as they come.
    """

    def __init__(
        self,
        settings: SchedulerSettings,
        kv: KVManager,
        estimator: StepTimeEstimator,
        clock: Clock,
        *,
        fingerprint: str,
        max_model_len: int,
        eos_ids: frozenset[int],
        draw_seed: Callable[[], int],
        vocab_size: int | None = None,
        lower_tier: TierIndex | None = None,
    ) -> None:
        self.kv = kv
        self.max_model_len = max_model_len
        self._fingerprint = fingerprint
        self._eos_ids = eos_ids
        self._draw_seed = draw_seed
        self._vocab_size = vocab_size
        self._accountant = StepAccountant(estimator, settings.step_time_target_s)
        self._scheduler = Scheduler(settings, kv, self._accountant, clock, lower_tier)
        self._requests: dict[RequestId, Request] = {}
        self._deadlines: list[tuple[int, RequestId]] = []
        self._timer_ns: int | None = None
        self._refused: list[RequestOutput] = []

    @property
    def idle(self) -> bool:
        """Nothing to do until a request arrives."""
        return not self._requests and not self._scheduler.outstanding_steps

    @property
    def estimator(self) -> StepTimeEstimator:
        """The step-time model, as calibrated by the steps so far."""
        return self._accountant.estimator

    def counters(self) -> EngineCounters:
        """Raw totals, and the state now."""
        counters = self._accountant.counters
        counters.running = len(self._scheduler.running)
        counters.waiting = self._scheduler.waiting_count
        counters.kv_blocks_used = self.kv.used_blocks
        counters.kv_blocks_total = self.kv.pool_blocks
        counters.kv_blocks_evicted = self.kv.evicted
        return counters

    def reset_prefix_cache(self) -> int:
        """Forgets every cached block; blocks in use stay with their requests. The number gone."""
        return self.kv.reset_prefix_cache()

    def on_events(self, events: Iterable[Event], now_ns: int) -> list[Action]:
        """Takes what happened and says what to do. Actions are in the order to carry them out."""
        touched: dict[RequestId, Request] = {}
        for event in events:
            for request in self._handle(event, now_ns):
                touched[request.id] = request
        for request in self._expire(now_ns):
            touched[request.id] = request
        actions: list[Action] = []
        while (step := self._scheduler.schedule()) is not None:
            actions.append(SubmitStep(step))
        actions.extend(self._scheduler.take_actions())
        outputs = tuple(
            self._output(request)
            for request in touched.values()
            if request.new_tokens or request.finished
        )
        if self._refused:
            outputs += tuple(self._refused)
            self._refused.clear()
        if outputs:
            actions.append(EmitOutputs(outputs))
        if kv_events := self.kv.take_events():
            actions.append(PublishKVEvents(tuple(kv_events)))
        actions.extend(self._timer())
        return actions

    def _handle(self, event: Event, now_ns: int) -> Sequence[Request]:
        match event:
            case RequestArrived(request, remote_tokens):
                refusal = self._refusal(request, remote_tokens)
                if refusal is None:
                    self._arrive(request, remote_tokens, now_ns)
                else:
                    self._refused.append(
                        RequestOutput(request.id, finish_reason=FinishReason.ERROR, error=refusal)
                    )
            case RequestAborted(request_id, reason):
                return self._abort(request_id, reason, now_ns)
            case StepDone(result):
                return self._scheduler.commit(result)
            case KVLoadDone(request_id, ok) | KVTransferDone(request_id, ok):
                self._scheduler.kv_arrived(request_id, ok)
            case KVStoreDone(blocks):
                self.kv.unpin(blocks)
            case TimerFired():
                self._timer_ns = None
            case _:
                assert_never(event)
        return ()

    def _refusal(self, arrived: EngineRequest, remote_tokens: int) -> str | None:
        """Why this request cannot be served, if it cannot. Frontends check first; this is last."""
        prompt = len(arrived.prompt_ids)
        # A request that was cut off while KV was on its way to it holds its blocks a little longer.
        if arrived.id in self._requests or self.kv.holds(arrived.id):
            return f"a request with id {arrived.id} is being served already"
        # What is only embedded needs no room for an answer.
        most = self.max_model_len - (not arrived.pooling)
        if not 1 <= prompt <= most:
            return f"a prompt has 1 to {most} tokens here, this one {prompt}"
        if not 0 <= remote_tokens < prompt:
            return f"{remote_tokens} tokens cannot come from elsewhere for a prompt of {prompt}"
        if self._vocab_size is not None:
            try:
                arrived.sampling.check_vocabulary(self._vocab_size)
            except InvalidRequestError as error:
                return str(error)
        return None

    def _arrive(self, arrived: EngineRequest, remote_tokens: int, now_ns: int) -> None:
        prompt = len(arrived.prompt_ids)
        sampling = arrived.sampling
        limit = self.max_model_len
        if sampling.max_tokens is not None:
            limit = min(limit, prompt + sampling.max_tokens)
        stop_ids = frozenset(sampling.stop_token_ids)
        seed = self._draw_seed() if sampling.seed is None else sampling.seed
        scores_prompt = sampling.prompt_logprobs is not None and not arrived.pooling
        request = Request(
            id=arrived.id,
            tokens=list(arrived.prompt_ids),
            prompt_tokens=prompt,
            sampling=sampling,
            seed=sample_seed(seed, arrived.sample_index),
            limit_tokens=limit,
            stop_ids=stop_ids if sampling.ignore_eos else stop_ids | self._eos_ids,
            chain=KeyChain(PrefixRoot(self._fingerprint, arrived.salt), self.kv.block_tokens),
            ledger=RequestLedger(now_ns),
            deadline_ns=None if arrived.timeout_ns is None else now_ns + arrived.timeout_ns,
            banned_ids=self._banned_ids(stop_ids) if sampling.min_tokens else (),
            remote_tokens=remote_tokens,
            prompt_logprobs=[None] * prompt if scores_prompt else None,
            waits_for=arrived.waits_for,
            pooling=arrived.pooling,
        )
        self._requests[request.id] = request
        self._accountant.counters.requests_arrived += 1
        if request.deadline_ns is not None:
            heapq.heappush(self._deadlines, (request.deadline_ns, request.id))
        leader = None if arrived.waits_for is None else self._requests.get(arrived.waits_for)
        if leader is None or leader.finished:
            self._scheduler.add(request)
        else:
            self._scheduler.add_behind(request, leader)

    def _banned_ids(self, stop_ids: frozenset[int]) -> tuple[int, ...]:
        """What is not drawn before `min_tokens`."""
        banned = sorted(stop_ids | self._eos_ids)
        size = self._vocab_size
        return tuple(token for token in banned if size is None or token < size)

    def _abort(self, request_id: RequestId, reason: FinishReason, now_ns: int) -> Sequence[Request]:
        ended: list[Request] = []
        request = self._requests.get(request_id)
        if request is not None:
            ended.append(request)
        if reason is FinishReason.ABORT:
            ended += [other for other in self._requests.values() if other.waits_for == request_id]
        ended = [one for one in ended if not one.finished]
        for one in ended:
            one.ledger.stage(_stage_at_abort(one), now_ns, merge=True)
            self._scheduler.finish(one, reason)
        return ended

    def _expire(self, now_ns: int) -> list[Request]:
        expired: list[Request] = []
        while self._deadlines and self._deadlines[0][0] <= now_ns:
            deadline_ns, request_id = heapq.heappop(self._deadlines)
            request = self._requests.get(request_id)
            # The deadline may be that of an earlier request with the same id.
            if request is not None and request.deadline_ns == deadline_ns:
                expired.extend(self._abort(request_id, FinishReason.TIMEOUT, now_ns))
        return expired

    def _timer(self) -> list[Action]:
        while self._deadlines and self._deadlines[0][1] not in self._requests:
            heapq.heappop(self._deadlines)
        if not self._deadlines:
            return []
        at_ns = self._deadlines[0][0]
        if self._timer_ns is not None and self._timer_ns <= at_ns:
            return []
        self._timer_ns = at_ns
        return [SetTimer(at_ns)]

    def _output(self, request: Request) -> RequestOutput:
        tokens = tuple(request.new_tokens)
        request.new_tokens.clear()
        logprobs = tuple(request.new_logprobs)
        request.new_logprobs.clear()
        prompt_logprobs = None
        if tokens and request.prompt_logprobs is not None:
            prompt_logprobs = tuple(request.prompt_logprobs)
            request.prompt_logprobs = None
        if not request.finished:
            return RequestOutput(
                request.id, tokens, logprobs=logprobs, prompt_logprobs=prompt_logprobs
            )
        del self._requests[request.id]
        counters = self._accountant.counters
        counters.requests_finished += 1
        counters.requests_aborted += request.finish_reason is FinishReason.ABORT
        return RequestOutput(
            request.id,
            tokens,
            request.finish_reason,
            request.stop_token_id,
            request.cached_tokens,
            request.ledger.record(),
            request.error,
            logprobs,
            prompt_logprobs,
            request.embedding,
        )


def _stage_at_abort(request: Request) -> LedgerStage:
    """What a request was doing, or waiting for, when it was cut off."""
    match request.status:
        case RequestStatus.RUNNING:
            prefilling = request.computed < request.prompt_tokens
            return LedgerStage.PREFILL if prefilling else LedgerStage.DECODE
        case RequestStatus.WAITING_FOR_KV_LOAD:
            return LedgerStage.KV_LOAD
        case RequestStatus.WAITING_FOR_KV_TRANSFER:
            return LedgerStage.KV_TRANSFER
        case RequestStatus.PREEMPTED:
            return LedgerStage.PREEMPTED
        case RequestStatus.WAITING | RequestStatus.WAITING_FOR_PROMPT | RequestStatus.FINISHED:
            return LedgerStage.QUEUE
