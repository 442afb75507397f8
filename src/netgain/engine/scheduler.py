"""Decides what runs next: a pure state machine, deterministic given its inputs.

A step first gives every decoding request its token, then fills what is left of the token budget
and of the step-time target with prefill chunks, oldest request first, and admits from the queue. A
prompt too long for the step leaves half of what is left to those behind it, so that a short prompt
does not wait for a long one's end; what they do not need it gets after all.
A request's whole prompt is given blocks at admission; only decoding grows, and when the pool runs
dry the request admitted last is preempted and recomputed later. The pool holds at least one
longest request, so the oldest request always ends.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from netgain.config import SchedulerSettings
from netgain.cost.step_time import StepLoad
from netgain.engine.accounting import ScheduledSlice, StepAccountant
from netgain.engine.clock import NS_PER_S, Clock
from netgain.engine.events import Action, StartKVLoad, StartKVStore, StartKVTransfer
from netgain.engine.messages import FinishReason, RequestId, TokenLogprob
from netgain.engine.request import Request, RequestStatus
from netgain.engine.step import NewRequest, Slice, Step, StepId, StepResult, TableGrowth, Tables
from netgain.kv.manager import KVManager, PrefixHit
from netgain.kv.prefix_index import BlockKey
from netgain.ledger.stages import LedgerStage


class TierIndex(Protocol):
    """What a tier below the device can give back."""

    def lookup(self, keys: Sequence[BlockKey]) -> int:
        """How many of `keys`, counted from the first, the tier holds."""
        ...


@dataclass(frozen=True, slots=True)
class _Outstanding:
    step_id: StepId
    slices: list[ScheduledSlice]
    load: StepLoad
    expected_s: float


@dataclass(frozen=True, slots=True)
class _AwaitedKV:
    """A request whose leading tokens are on their way into its blocks."""

    request: Request
    stage: LedgerStage
    tokens_before: int
    tokens_after: int


@dataclass(slots=True)
class _StepBuilder:
    """One step being filled, under its token budget and its time budget."""

    tokens_left: int
    target_s: float
    slices: list[ScheduledSlice] = field(default_factory=list)
    new: list[NewRequest] = field(default_factory=list)
    grown: list[TableGrowth] = field(default_factory=list)
    load: StepLoad = field(default_factory=StepLoad)

    def add(self, request: Request, count: int) -> None:
        """Adds `count` tokens of a request and moves its counts."""
        start = request.scheduled
        sample = start + count == request.length and not request.pooling
        stage = _stage_of(request)
        piece = Slice(request.id, start, count, sample)
        self.slices.append(ScheduledSlice(request, piece, request.epoch, stage))
        self.load = self.load.plus(start, count)
        self.tokens_left -= count
        request.scheduled += count
        request.in_flight += 1
        request.pending_samples += sample

    def load_without(self, index: int) -> StepLoad:
        """The load of all slices but one."""
        others = self.slices[:index] + self.slices[index + 1 :]
        return StepLoad.of((entry.piece.start, entry.piece.count) for entry in others)

    def lengthen(self, index: int, count: int) -> None:
        """Makes a slice that samples nothing yet `count` tokens long."""
        entry = self.slices[index]
        request, piece = entry.request, entry.piece
        sample = piece.start + count == request.length and not request.pooling
        self.load = self.load_without(index).plus(piece.start, count)
        self.slices[index] = replace(
            entry, piece=Slice(piece.request_id, piece.start, count, sample)
        )
        self.tokens_left -= count - piece.count
        request.scheduled += count - piece.count
        request.pending_samples += sample


def _stage_of(request: Request) -> LedgerStage:
    if request.scheduled < request.recompute_until:
        return LedgerStage.RECOMPUTE
    return LedgerStage.PREFILL if request.is_prefilling else LedgerStage.DECODE


class Scheduler:
    """Waiting and running requests, and the steps made of them.

    `schedule` makes the next step, `commit` takes a step's result; up to
    `max_outstanding_steps` may be made before the first is committed.
    """

    def __init__(
        self,
        settings: SchedulerSettings,
        kv: KVManager,
        accountant: StepAccountant,
        clock: Clock,
        lower_tier: TierIndex | None = None,
    ) -> None:
        self.kv = kv
        self.running: list[Request] = []
        self.waiting: deque[Request] = deque()
        self._settings = settings
        self._accountant = accountant
        self._clock = clock
        self._lower_tier = lower_tier
        self._awaited: dict[RequestId, _AwaitedKV] = {}
        self._following: dict[RequestId, Request] = {}
        self._outstanding: deque[_Outstanding] = deque()
        self._released: list[RequestId] = []
        self._actions: list[Action] = []
        self._fenced: deque[tuple[StepId, _AwaitedKV, Action]] = deque()
        self._steps = 0

    @property
    def outstanding_steps(self) -> int:
        """Steps made and not committed."""
        return len(self._outstanding)

    @property
    def unfinished(self) -> int:
        """Requests that have not ended."""
        awaited = sum(1 for entry in self._awaited.values() if not entry.request.finished)
        return len(self.running) + len(self.waiting) + len(self._following) + awaited

    @property
    def waiting_count(self) -> int:
        """Requests that hold no place in the running batch."""
        return self.unfinished - len(self.running)

    def add(self, request: Request) -> None:
        """Queues a new request."""
        self.waiting.append(request)

    def add_behind(self, request: Request, leader: Request) -> None:
        """Queues a new request once the unfinished `leader`'s prompt is computed, or it ended."""
        if leader.computed >= leader.prompt_tokens:
            self.add(request)
            return
        request.status = RequestStatus.WAITING_FOR_PROMPT
        leader.followers.append(request)
        self._following[request.id] = leader

    def take_actions(self) -> list[Action]:
        """KV loads, transfers and stores decided since the last call."""
        actions = self._actions
        self._actions = []
        return actions

    def schedule(self) -> Step | None:
        """The next step, or None when nothing can or should run now."""
        expected_s = sum(entry.expected_s for entry in self._outstanding)
        if len(self._outstanding) >= self._settings.max_outstanding_steps:
            return None
        target_s = self._settings.step_time_target_s - expected_s
        if self._outstanding and target_s <= 0:
            return None
        builder = _StepBuilder(self._settings.max_num_batched_tokens, target_s)
        preempted = self._schedule_decodes(builder)
        self._schedule_prefills(builder)
        if not preempted:
            self._admit(builder)
        self._give_rest(builder)
        if not builder.slices:
            return None
        return self._seal(builder)

    def commit(self, result: StepResult) -> list[Request]:
        """Takes the result of the oldest outstanding step; the requests it touched.

        Raises `ValueError` for any other step's result.
        """
        step = self._outstanding.popleft()
        if step.step_id != result.step_id:
            raise ValueError(f"step {result.step_id} ended before step {step.step_id}")
        self._accountant.step_ended(
            step.slices,
            step.load,
            result.started_ns,
            result.ended_ns,
            ordinary=result.error is None
            and not any(entry.request.needs_every_row for entry in step.slices),
        )
        tokens, logprobs = iter(result.tokens), iter(result.logprobs)
        scored = {entry.request_id: entry for entry in result.prompt_logprobs}
        touched: list[Request] = []
        for entry in step.slices:
            request = entry.request
            request.in_flight -= 1
            request.pending_samples -= entry.piece.sample
            token = next(tokens) if entry.piece.sample and result.error is None else None
            logprob = next(logprobs, None) if entry.piece.sample else None
            if request.finished:
                continue
            touched.append(request)
            if result.error is not None:
                request.error = result.error
                self.finish(request, FinishReason.ERROR)
                continue
            if entry.epoch == request.epoch:
                request.computed = entry.piece.start + entry.piece.count
                self._publish(request)
                if request.followers and request.computed >= request.prompt_tokens:
                    self._queue_followers(request)
            if scored and request.prompt_logprobs is not None and request.id in scored:
                found = scored[request.id]
                end = found.first + len(found.entries)
                request.prompt_logprobs[found.first : end] = found.entries
            if token is not None:
                self._append(request, token, logprob)
            elif request.pooling and request.computed == request.prompt_tokens:
                request.embedding = next(
                    (one.vector for one in result.embeddings if one.request_id == request.id), None
                )
                self.finish(request, FinishReason.STOP)
        self._lift_fences()
        return touched

    def finish(self, request: Request, reason: FinishReason) -> None:
        """Ends a request in any state and gives its blocks back."""
        if request.finished:
            return
        if request.followers:
            self._queue_followers(request)
        if request.status is RequestStatus.RUNNING:
            self.running.remove(request)
        elif request.status is RequestStatus.WAITING_FOR_PROMPT:
            self._following.pop(request.id).followers.remove(request)
        elif request.id not in self._awaited:
            self.waiting.remove(request)
        request.status = RequestStatus.FINISHED
        request.finish_reason = reason
        if request.known_to_executor:
            self._released.append(request.id)
            request.known_to_executor = False
        if request.id not in self._awaited:
            # Blocks that a load or transfer is writing to are given back when it ends.
            self.kv.release(request.id)

    def kv_arrived(self, request_id: RequestId, ok: bool) -> None:
        """A load or transfer ended: its request may run, from where KV is there."""
        awaited = self._awaited.pop(request_id)
        request = awaited.request
        if request.finished:
            self.kv.release(request_id)
            return
        request.ledger.stage(awaited.stage, self._clock.now_ns())
        request.computed = awaited.tokens_after if ok else awaited.tokens_before
        request.scheduled = request.computed
        request.status = RequestStatus.RUNNING
        self.running.append(request)
        self._publish(request, below=awaited.stage is not LedgerStage.KV_LOAD)

    def _schedule_decodes(self, builder: _StepBuilder) -> bool:
        """One token for every decoding request; whether any was preempted for it."""
        preempted = False
        for request in tuple(self.running):
            if request.status is not RequestStatus.RUNNING or not request.is_decoding:
                continue
            added = self.kv.grow(request.id, request.scheduled + 1)
            while added is None:
                victim = self.running[-1]
                self._preempt(victim)
                preempted = True
                if victim is request:
                    break
                added = self.kv.grow(request.id, request.scheduled + 1)
            if added is not None:
                self._place(builder, request, 1, added)
        return preempted

    def _schedule_prefills(self, builder: _StepBuilder) -> None:
        prefilling = [r for r in self.running if r.is_prefilling and r.to_schedule]
        for place, request in enumerate(prefilling, 1):
            followed = place < len(prefilling) or bool(self.waiting)
            count = self._chunk(builder, request.scheduled, request.to_schedule, share=followed)
            if not count:
                return
            self._place(builder, request, count, None)

    def _give_rest(self, builder: _StepBuilder) -> None:
        """Lengthens the oldest cut prompt's chunk by what those behind it left over."""
        for index, entry in enumerate(builder.slices):
            whole_already = entry.piece.sample or not entry.request.to_schedule
            if entry.stage is LedgerStage.DECODE or whole_already:
                continue
            start, count = entry.piece.start, entry.piece.count
            fits = self._accountant.model.largest_chunk(
                builder.load_without(index), start, builder.target_s
            )
            missing = count + entry.request.to_schedule
            whole = min(missing, fits, builder.tokens_left + count)
            if whole < missing:
                whole -= (start + whole) % self.kv.block_tokens
            if whole > count:
                builder.lengthen(index, whole)
            return

    def _admit(self, builder: _StepBuilder) -> None:
        while self.waiting:
            request = self.waiting[0]
            places = len(self.running) + len(self._awaited)
            if places >= self._settings.max_num_seqs or request.in_flight:
                return
            if not self._admit_one(builder, request):
                return

    def _admit_one(self, builder: _StepBuilder, request: Request) -> bool:
        """Gives a request its blocks and its first chunk, or says that it must wait."""
        block = self.kv.block_tokens
        known = len(request.tokens)
        if not self._chunk(builder, 0, 1):
            return False
        started_ns = self._clock.now_ns()
        # The last token is always computed: its logits are what the request came for. So are all
        # whose logits are wanted.
        keys: Sequence[BlockKey] = ()
        if not request.needs_every_row:
            keys = request.chain.extend(request.tokens)[: (known - 1) // block]
        hit = self.kv.find(request.chain, keys)
        hit_tokens = hit.count * block
        needed = self.kv.blocks_for(known) - hit.count + hit.unheld
        if needed + len(self.running) > self.kv.free_blocks and (
            self.running or self._awaited or needed > self.kv.free_blocks
        ):
            return False
        awaited = None if request.needs_every_row else self._awaitable(request, hit, keys)
        count = 0
        if awaited is None:
            count = self._chunk(
                builder, hit_tokens, known - hit_tokens, share=len(self.waiting) > 1
            )
            if not count:
                return False
        ended_ns = self._clock.now_ns()
        self.waiting.popleft()
        self._record_admission(request, hit_tokens, started_ns, ended_ns)
        self.kv.admit(request.id, hit)
        self.kv.grow(request.id, known)
        request.computed = request.scheduled = hit_tokens
        if awaited is not None:
            self._await_kv(awaited, keys, hit)
            return True
        request.status = RequestStatus.RUNNING
        self.running.append(request)
        self._place(builder, request, count, None)
        return True

    def _record_admission(
        self, request: Request, hit_tokens: int, started_ns: int, ended_ns: int
    ) -> None:
        waited = LedgerStage.PREEMPTED if request.admitted else LedgerStage.QUEUE
        request.ledger.stage(waited, started_ns)
        request.ledger.stage(LedgerStage.KV_LOOKUP, ended_ns)
        looked_up = self.kv.prefix_cache and not request.needs_every_row
        if looked_up and not request.admitted:
            self._accountant.cache_looked_up(
                request, hit_tokens, started_ns, ended_ns, alone=not self.running
            )
        request.admitted = True

    def _awaitable(
        self, request: Request, hit: PrefixHit, keys: Sequence[BlockKey]
    ) -> _AwaitedKV | None:
        """KV that someone else holds beyond the hit, if any."""
        block = self.kv.block_tokens
        hit_tokens = hit.count * block
        if request.remote_tokens > hit_tokens and not request.admitted:
            return _AwaitedKV(request, LedgerStage.KV_TRANSFER, hit_tokens, request.remote_tokens)
        if self._lower_tier is None:
            return None
        below = self._lower_tier.lookup(keys) * block
        if below <= hit_tokens:
            return None
        return _AwaitedKV(request, LedgerStage.KV_LOAD, hit_tokens, below)

    def _await_kv(self, awaited: _AwaitedKV, keys: Sequence[BlockKey], hit: PrefixHit) -> None:
        request = awaited.request
        end = self.kv.blocks_for(awaited.tokens_after)
        blocks: Tables = tuple(
            tuple(table[hit.count : end]) for table in self.kv.tables(request.id)
        )
        self._awaited[request.id] = awaited
        if awaited.stage is LedgerStage.KV_TRANSFER:
            request.status = RequestStatus.WAITING_FOR_KV_TRANSFER
            start: Action = StartKVTransfer(request.id, blocks)
        else:
            request.status = RequestStatus.WAITING_FOR_KV_LOAD
            start = StartKVLoad(request.id, tuple(keys[hit.count : end]), blocks)
        self._fenced.append((StepId(self._steps), awaited, start))
        self._lift_fences()

    def _lift_fences(self) -> None:
        """Starts loads and transfers whose blocks no outstanding step can still write to.

        Steps run in order, so a block may go from one step's request to a later step's at once;
        loads and transfers run beside the steps, and a step made for the block's former holder
        may still be outstanding.
        """
        oldest = self._outstanding[0].step_id if self._outstanding else StepId(self._steps + 1)
        while self._fenced and self._fenced[0][0] < oldest:
            _, awaited, start = self._fenced.popleft()
            if awaited.request.finished:
                del self._awaited[awaited.request.id]
                self.kv.release(awaited.request.id)
            else:
                self._actions.append(start)

    def _chunk(
        self, builder: _StepBuilder, start: int, missing: int, *, share: bool = False
    ) -> int:
        """Tokens of a prefill chunk from `start`: within both budgets, ending on a block edge.

        With `share`, a prompt that does not end in this step takes half of what is left.

        A step with nothing ahead of it always moves one prompt by a block, however slow the
        machine, or by what the token budget holds of one.
        """
        block = self.kv.block_tokens
        fits = self._accountant.model.largest_chunk(builder.load, start, builder.target_s)
        must_move = not self._outstanding and not any(
            entry.stage is not LedgerStage.DECODE for entry in builder.slices
        )
        if must_move:
            fits = max(fits, block)
        count = min(missing, fits, builder.tokens_left)
        if count == missing:
            return count
        if share:
            count = max(count // 2, min(count, block))
        to_edge = count - (start + count) % block
        if to_edge > 0:
            return to_edge
        return count if must_move else 0

    def _place(
        self, builder: _StepBuilder, request: Request, count: int, added: Tables | None
    ) -> None:
        """Puts a slice into the step, with what the executor must know for it."""
        if not request.known_to_executor:
            tables = tuple(tuple(table) for table in self.kv.tables(request.id))
            builder.new.append(
                NewRequest(
                    request.id,
                    tuple(request.tokens),
                    request.prompt_tokens,
                    request.sampling,
                    request.seed,
                    tables,
                    request.banned_ids,
                    request.prompt_logprobs is not None,
                    request.pooling,
                )
            )
            request.known_to_executor = True
        elif added is not None and added[0]:
            builder.grown.append(TableGrowth(request.id, added))
        builder.add(request, count)

    def _seal(self, builder: _StepBuilder) -> Step:
        self._steps += 1
        step = Step(
            StepId(self._steps),
            tuple(entry.piece for entry in builder.slices),
            tuple(builder.new),
            tuple(builder.grown),
            tuple(self._released),
        )
        self._released.clear()
        expected_s = self._accountant.model.step_s(builder.load)
        self._outstanding.append(_Outstanding(step.id, builder.slices, builder.load, expected_s))
        return step

    def _preempt(self, victim: Request) -> None:
        """Takes a running request's blocks; it is first in the queue again."""
        self.running.remove(victim)
        self.waiting.appendleft(victim)
        self.kv.release(victim.id)
        self._accountant.counters.preemptions += 1
        victim.status = RequestStatus.PREEMPTED
        victim.recompute_until = max(victim.recompute_until, victim.computed)
        victim.computed = victim.scheduled = 0
        victim.epoch += 1
        if victim.known_to_executor:
            self._released.append(victim.id)
            victim.known_to_executor = False

    def _queue_followers(self, leader: Request) -> None:
        """What waited for a prompt is next in the queue, behind those who ran already."""
        behind = 0
        while behind < len(self.waiting) and self.waiting[behind].admitted:
            behind += 1
        for place, request in enumerate(leader.followers, behind):
            del self._following[request.id]
            request.status = RequestStatus.WAITING
            self.waiting.insert(place, request)
        leader.followers.clear()

    def _append(self, request: Request, token: int, logprob: TokenLogprob | None) -> None:
        answered = len(request.tokens) - request.prompt_tokens
        request.tokens.append(token)
        request.new_tokens.append(token)
        if logprob is not None:
            request.new_logprobs.append(logprob)
        if token in request.stop_ids and answered >= request.sampling.min_tokens:
            request.stop_token_id = token
            self.finish(request, FinishReason.STOP)
        elif len(request.tokens) >= request.limit_tokens:
            self.finish(request, FinishReason.LENGTH)

    def _publish(self, request: Request, *, below: bool = True) -> None:
        """Indexes newly full blocks; with `below`, sends them to the tier below if there is one."""
        if request.pooling or not self.kv.prefix_cache:
            return
        if not self.kv.has_unpublished(request.id, request.computed):
            return
        started_ns = self._clock.now_ns()
        request.chain.extend(request.tokens)
        stored = self.kv.publish(request.id, request.chain, request.computed)
        if stored and below and self._lower_tier is not None:
            tables = self.kv.tables(request.id)
            blocks: Tables = tuple(tuple(table[i] for i in stored) for table in tables)
            self.kv.pin(blocks)
            keys = tuple(request.chain.keys[i] for i in stored)
            self._actions.append(StartKVStore(keys, blocks))
        self._accountant.gained(request, 0.0, (self._clock.now_ns() - started_ns) / NS_PER_S)
