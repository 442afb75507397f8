"""A device that remembers, for every KV slot, exactly which prefix was written there.

It runs a core's steps as an executor must: in order, knowing only what steps carry. Each slice
checks that every earlier position of its request holds that very prefix's KV, and the token it
samples is a function of the whole prefix. A wrong block, a stale block, a block shared across
salts, a lost or doubled token: each shows as a failed check or a wrong answer.
"""

import hashlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from netgain.config import SchedulerSettings
from netgain.cost.step_time import StepLoad, StepTimeEstimator, StepTimeModel
from netgain.engine.core import EngineCore
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
    StartKVLoad,
    StartKVStore,
    StartKVTransfer,
    StepDone,
    SubmitStep,
    TimerFired,
)
from netgain.engine.messages import EngineRequest, FinishReason, RequestId, RequestOutput
from netgain.engine.sampling_params import SamplingParams
from netgain.engine.step import NewRequest, Slice, Step, StepResult, Tables
from netgain.kv.manager import KVManager
from netgain.kv.prefix_index import BlockKey
from netgain.sim.clock import VirtualClock

VOCABULARY = 50
EOS = 7


def prefix_digest(salt: str, tokens: Sequence[int]) -> bytes:
    """What a KV slot holds after the last of `tokens` was computed."""
    return hashlib.sha256(salt.encode() + b"/" + bytes(tokens)).digest()


def next_token(tokens: Sequence[int]) -> int:
    """The oracle's greedy model."""
    digest = hashlib.sha256(bytes(tokens)).digest()
    return int.from_bytes(digest[:4], "little") % VOCABULARY


def expected_answer(request: EngineRequest, max_model_len: int) -> list[int]:
    """What a request must generate, alone on an endless machine."""
    tokens = list(request.prompt_ids)
    limit = max_model_len
    stops = set(request.sampling.stop_token_ids)
    if not request.sampling.ignore_eos:
        stops.add(EOS)
    if request.sampling.max_tokens is not None:
        limit = min(limit, len(tokens) + request.sampling.max_tokens)
    answer: list[int] = []
    while len(tokens) < limit:
        token = next_token(tokens)
        tokens.append(token)
        answer.append(token)
        if token in stops:
            break
    return answer


@dataclass
class OracleTier:
    """A tier below that holds slot contents by block key."""

    content: dict[bytes, list[list[bytes]]] = field(default_factory=dict)

    def lookup(self, keys: Sequence[BlockKey]) -> int:
        count = 0
        for key in keys:
            if key.hash not in self.content:
                break
            count += 1
        return count


@dataclass
class _Known:
    tokens: list[int]
    tables: list[list[int]]
    salt: str
    pooling: bool


class Rig:
    """A core, the oracle device under it, and everything still to be answered.

    With `step_time`, steps take what it says and the core's estimator is fitted to it; otherwise
    they take a millisecond a token and the estimator starts knowing nothing.
    """

    def __init__(
        self,
        settings: SchedulerSettings,
        *,
        blocks: int,
        block_tokens: int,
        max_model_len: int,
        groups: int = 1,
        prefix_cache: bool = True,
        tier: OracleTier | None = None,
        step_time: StepTimeModel | None = None,
        clock: VirtualClock | None = None,
    ) -> None:
        self.clock = clock or VirtualClock()
        self.step_time = step_time
        self.settings = settings
        self.tier = tier
        self.kv = KVManager(groups, blocks, block_tokens, prefix_cache, record_events=True)
        self.core = EngineCore(
            settings,
            self.kv,
            StepTimeEstimator() if step_time is None else fitted(step_time),
            self.clock,
            fingerprint="oracle",
            max_model_len=max_model_len,
            eos_ids=frozenset({EOS}),
            draw_seed=lambda: 1,
            lower_tier=tier,
        )
        self.requests: dict[RequestId, EngineRequest] = {}
        self.outputs: dict[RequestId, list[int]] = {}
        self.ended: dict[RequestId, RequestOutput] = {}
        self.steps: list[Step] = []
        self.outstanding: deque[Step] = deque()
        self.loads: list[StartKVLoad] = []
        self.transfers: list[StartKVTransfer] = []
        self.stores: list[StartKVStore] = []
        self.indexed: set[tuple[int, bytes]] = set()
        self.timers: list[int] = []
        self._known: dict[RequestId, _Known] = {}
        self._planned: dict[RequestId, list[list[int]]] = {}
        self._writes: dict[int, set[tuple[int, int]]] = {}
        self._slots: list[dict[tuple[int, int], bytes]] = [{} for _ in range(groups)]
        self._block_tokens = block_tokens

    # What may happen to the core

    def arrive(
        self,
        prompt: Sequence[int],
        *,
        max_tokens: int | None = 8,
        salt: str = "",
        remote: int = 0,
        timeout_ns: int | None = None,
        ignore_eos: bool = False,
        stop_token_ids: Sequence[int] = (),
    ) -> RequestId:
        sampling = SamplingParams(
            temperature=0.0,
            max_tokens=max_tokens,
            ignore_eos=ignore_eos,
            stop_token_ids=tuple(stop_token_ids),
        )
        request = self._request(prompt, sampling, salt, timeout_ns)
        self.send(RequestArrived(request, remote))
        return request.id

    def arrive_together(
        self, prompts: Sequence[Sequence[int]], *, max_tokens: int | None = 8
    ) -> list[RequestId]:
        """Requests that arrive in one turn of the loop."""
        sampling = SamplingParams(temperature=0.0, max_tokens=max_tokens)
        requests = [self._request(prompt, sampling, "", None) for prompt in prompts]
        self.send(*(RequestArrived(request) for request in requests))
        return [request.id for request in requests]

    def arrive_samples(
        self,
        prompt: Sequence[int],
        n: int,
        *,
        max_tokens: int | None = 8,
        salt: str = "",
        timeout_ns: int | None = None,
    ) -> list[RequestId]:
        """Several samples of one prompt, in one turn of the loop."""
        sampling = SamplingParams(temperature=0.0, max_tokens=max_tokens, ignore_eos=True)
        samples = self._request(prompt, sampling, salt, timeout_ns).samples(n)
        self.submit(*samples)
        return [sample.id for sample in samples]

    def submit(self, *requests: EngineRequest) -> None:
        """Requests of the test's own making arrive in one turn of the loop."""
        for request in requests:
            self.requests[request.id] = request
            self.outputs[request.id] = []
        self.send(*(RequestArrived(request) for request in requests))

    def _request(
        self,
        prompt: Sequence[int],
        sampling: SamplingParams,
        salt: str,
        timeout_ns: int | None,
    ) -> EngineRequest:
        request = EngineRequest(
            id=RequestId(f"r{len(self.requests)}"),
            prompt_ids=tuple(prompt),
            sampling=sampling,
            salt=salt,
            timeout_ns=timeout_ns,
        )
        self.requests[request.id] = request
        self.outputs[request.id] = []
        return request

    def abort(self, request_id: RequestId, reason: FinishReason = FinishReason.ABORT) -> None:
        self.send(RequestAborted(request_id, reason))

    def finish_step(self, error: str | None = None) -> None:
        """The oldest outstanding step runs and ends."""
        step = self.outstanding.popleft()
        tokens = self._run(step)
        start_ns = self.clock.now_ns()
        self._writes.pop(step.id)
        if self.step_time is None:
            duration_ns = 1_000_000 * max(1, step.tokens)
        else:
            duration_ns = round(self.step_time.step_s(load_of(step)) * 1e9)
        self.clock.advance_to(start_ns + duration_ns)
        result = StepResult(step.id, tuple(tokens), start_ns, self.clock.now_ns(), error)
        self.send(StepDone(result))

    def fail_step_at_once(self, error: str) -> None:
        """The oldest outstanding step fails before it does any work, as for want of memory."""
        step = self.outstanding.popleft()
        self._writes.pop(step.id)
        self._apply(step)
        start_ns = self.clock.now_ns()
        self.clock.advance_to(start_ns + 1_000)
        self.send(StepDone(StepResult(step.id, (), start_ns, start_ns + 1_000, error)))

    def finish_load(self, index: int, *, ok: bool) -> None:
        load = self.loads.pop(index)
        for position, key in enumerate(load.keys):
            for group, table in enumerate(load.blocks):
                assert self.tier is not None
                content = self.tier.content[key.hash][group] if ok else []
                self._fill(group, table[position], content)
        self.send(KVLoadDone(load.request_id, ok))

    def finish_transfer(self, index: int, *, ok: bool) -> None:
        transfer = self.transfers.pop(index)
        request = self.requests[transfer.request_id]
        size = self._block_tokens
        tables = self.kv.tables(transfer.request_id)
        for group, blocks in enumerate(transfer.blocks):
            for block in blocks:
                first = tables[group].index(block) * size
                content = [
                    prefix_digest(request.salt, request.prompt_ids[: first + i + 1])
                    for i in range(size)
                ]
                self._fill(group, block, content if ok else [])
        self.send(KVTransferDone(transfer.request_id, ok))

    def finish_store(self, index: int) -> None:
        store = self.stores.pop(index)
        assert self.tier is not None
        for position, key in enumerate(store.keys):
            self.tier.content[key.hash] = [
                [self._slots[group][(table[position], i)] for i in range(self._block_tokens)]
                for group, table in enumerate(store.blocks)
            ]
        self.send(KVStoreDone(store.blocks))

    def pass_time(self, nanoseconds: int) -> None:
        self.clock.advance_to(self.clock.now_ns() + nanoseconds)
        if any(at <= self.clock.now_ns() for at in self.timers):
            self.timers = [at for at in self.timers if at > self.clock.now_ns()]
            self.send(TimerFired())

    def drain(self) -> None:
        """Lets everything outstanding end, successfully."""
        for _ in range(100_000):
            if self.loads:
                self.finish_load(0, ok=True)
            elif self.transfers:
                self.finish_transfer(0, ok=True)
            elif self.stores:
                self.finish_store(0)
            elif self.outstanding:
                self.finish_step()
            else:
                return
        raise AssertionError("the core never comes to rest")

    # What the core wants

    def send(self, *events: Event) -> None:
        for action in self.core.on_events(events, self.clock.now_ns()):
            self._carry_out(action)
        self._check_sharing()
        if not self.stores:
            self.kv.check()

    def _carry_out(self, action: Action) -> None:
        match action:
            case SubmitStep(step):
                assert 0 < len(step.slices) <= self.settings.max_num_seqs
                assert step.tokens <= self.settings.max_num_batched_tokens
                assert len({piece.request_id for piece in step.slices}) == len(step.slices)
                self.steps.append(step)
                self.outstanding.append(step)
                self._writes[step.id] = self._plan(step)
            case EmitOutputs(outputs):
                for output in outputs:
                    assert output.id not in self.ended
                    self.outputs[output.id].extend(output.token_ids)
                    if output.finish_reason is not None:
                        self.ended[output.id] = output
            case StartKVLoad():
                self._check_fence(action.blocks)
                self.loads.append(action)
            case StartKVTransfer():
                self._check_fence(action.blocks)
                self.transfers.append(action)
            case StartKVStore():
                self.stores.append(action)
            case SetTimer(at_ns):
                self.timers.append(at_ns)
            case PublishKVEvents(events):
                for kv_event in events:
                    key = (kv_event.group, kv_event.block_hash)
                    if hasattr(kv_event, "parent_hash"):
                        assert key not in self.indexed
                        self.indexed.add(key)
                    else:
                        self.indexed.remove(key)

    def _plan(self, step: Step) -> set[tuple[int, int]]:
        """The (group, block)s that a step will write to."""
        for released in step.released:
            del self._planned[released]
        for new in step.new:
            self._planned[new.request_id] = [list(table) for table in new.tables]
        for growth in step.grown:
            tables = self._planned[growth.request_id]
            for table, blocks in zip(tables, growth.blocks, strict=True):
                table.extend(blocks)
        size = self._block_tokens
        return {
            (group, table[position // size])
            for piece in step.slices
            for group, table in enumerate(self._planned[piece.request_id])
            for position in range(piece.start, piece.start + piece.count)
        }

    def _check_fence(self, blocks: Tables) -> None:
        filled = {(group, block) for group, table in enumerate(blocks) for block in table}
        for step in self.outstanding:
            assert not filled & self._writes[step.id], "a step may still write to these blocks"

    # The device

    def _run(self, step: Step) -> list[int]:
        self._apply(step)
        return [token for piece in step.slices if (token := self._run_slice(piece)) is not None]

    def _apply(self, step: Step) -> None:
        for released in step.released:
            del self._known[released]
        for new in step.new:
            self._learn(new)
        for growth in step.grown:
            for table, blocks in zip(
                self._known[growth.request_id].tables, growth.blocks, strict=True
            ):
                table.extend(blocks)

    def _learn(self, new: NewRequest) -> None:
        assert new.request_id not in self._known
        self._known[new.request_id] = _Known(
            list(new.tokens),
            [list(table) for table in new.tables],
            self.requests[new.request_id].salt,
            new.pooling,
        )

    def _run_slice(self, piece: Slice) -> int | None:
        known = self._known[piece.request_id]
        end = piece.start + piece.count
        assert piece.count >= 1
        assert end <= len(known.tokens)
        assert piece.sample == (end == len(known.tokens) and not known.pooling)
        size = self._block_tokens
        for group, table in enumerate(known.tables):
            for position in range(end):
                slot = (table[position // size], position % size)
                assert slot[0] != 0
                digest = prefix_digest(known.salt, known.tokens[: position + 1])
                if position >= piece.start:
                    self._slots[group][slot] = digest
                assert self._slots[group].get(slot) == digest, (
                    f"{piece.request_id} reads a slot that holds something else"
                )
        if not piece.sample:
            return None
        token = next_token(known.tokens)
        known.tokens.append(token)
        return token

    def _fill(self, group: int, block: int, content: Sequence[bytes]) -> None:
        for i in range(self._block_tokens):
            self._slots[group][(block, i)] = content[i] if i < len(content) else b"garbage"

    def _check_sharing(self) -> None:
        holders: dict[tuple[int, int], set[str]] = {}
        for request_id, request in self.requests.items():
            if self.kv.holds(request_id):
                for group, table in enumerate(self.kv.tables(request_id)):
                    for block in table:
                        holders.setdefault((group, block), set()).add(request.salt)
        assert all(len(salts) == 1 for salts in holders.values()), "a block crosses salts"


def load_of(step: Step) -> StepLoad:
    """What a step asks of the device."""
    return StepLoad.of((piece.start, piece.count) for piece in step.slices)


def fitted(model: StepTimeModel) -> StepTimeEstimator:
    """An estimator that has seen enough exact steps of `model` to know it."""
    shapes = [(n, start, count) for n in (1, 4) for start in (0, 30, 400) for count in (1, 16, 90)]
    loads = [StepLoad.of([(start, count)] * n) for n, start, count in shapes]
    return StepTimeEstimator((load, model.step_s(load)) for load in loads)
