"""The native backend: kernels for this processor, one call per step.

Dimensions: T tokens of the step, R slices, N rows that need logits, V vocabulary.
"""

import ctypes
import os
import weakref
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from netgain.errors import ConfigurationError
from netgain.kv.geometry import KVDType, KVGroup
from netgain.ops.backend import BackendTraits, StepBounds, StepMemory
from netgain.ops.choices import BackendName, KVFormat, Numerics, WeightFormat
from netgain.ops.cpu import plan_abi
from netgain.ops.cpu.library import Library
from netgain.ops.cpu.memory import WeightMemory
from netgain.ops.cpu.plan_abi import OpKind
from netgain.ops.cpu.recording import NativeOp, Program, Rows, record
from netgain.ops.cpu.weights import PackedSink, resident_bytes
from netgain.ops.draws import Draws, Shaping
from netgain.ops.interface import Activation, StepModel
from netgain.ops.scores import Scores, StepYield, Wanted
from netgain.ops.step_inputs import StepInputs
from netgain.ops.weights import MatrixSpec

_FP32_BYTES: Final = 4
_LINE_BYTES: Final = 64
_ROW_GROUP: Final = 16
"""Quantised rows lie in groups of so many, and can be cut between them (`kRowGroup`)."""
_PARTIAL_BYTES: Final = 16 << 20
"""Most that attention cut along the context takes (`kMostPartialFloats` in attention_plan.h)."""
_KV_CODES: Final = {KVDType.FP32: 0, KVDType.BF16: 1, KVDType.FP16: 2, KVDType.INT8: 3}
_PHASES: Final = {
    -1: "angles",
    -2: "draw",
    OpKind.ATTENTION * 8 + 1: "rotate and store",
    OpKind.ATTENTION * 8 + 2: "attend",
    OpKind.ATTENTION * 8 + 3: "merge",
    OpKind.NORM * 8 + 4: "hidden",
}
"""Phases that are not a whole operation; the others are numbered 8 x kind."""
_ACTIVATIONS: Final = {Activation.SILU: 0, Activation.GELU_TANH: 1}


class NativeBackend:
    """A `Backend` of own kernels.

    Whatever is asked of `numerics`, a row's result never depends on who shares its step: no kernel
    here would gain by it. With `pinned`, each thread stays on a core of its own; the thread that
    runs steps is the first of them, stays there afterwards, and so does what it starts.
    """

    def __init__(
        self,
        library: Library,
        threads: int,
        weights: WeightFormat = WeightFormat.AUTO,
        kv_format: KVFormat = KVFormat.AUTO,
        numerics: Numerics = Numerics.AUTO,
        *,
        pinned: bool = False,
    ) -> None:
        self._library = library
        self._memory = WeightMemory()
        handle = plan_abi.declare(library)
        cores = sorted(os.sched_getaffinity(0)) if pinned else []
        cpus = (ctypes.c_int * len(cores))(*cores)
        self._pool = handle.ng_pool_create(threads, cpus, len(cores))
        if not self._pool:
            raise ConfigurationError(
                f"the system refused to start {threads} threads; use fewer (--threads), or raise "
                "the limit on processes"
            )
        weakref.finalize(self, handle.ng_pool_destroy, self._pool)
        self._traits = BackendTraits(
            name=BackendName.NATIVE,
            isa=library.isa,
            threads=threads,
            weights=WeightFormat.AS_STORED if weights is WeightFormat.AUTO else weights,
            kv_dtype=KVDType.FP16 if kv_format is KVFormat.AUTO else KVDType(kv_format.value),
            kv_layout="layer,kv,head,keys by dim,values by token",
            numerics=Numerics.INVARIANT if numerics is Numerics.AUTO else numerics,
        )

    @property
    def traits(self) -> BackendTraits:
        """See `Backend.traits`."""
        return self._traits

    def resident_bytes(self, spec: MatrixSpec) -> int:
        """See `Backend.resident_bytes`."""
        return resident_bytes(self._library, self._traits.weights, spec)

    def step_memory(self, bounds: StepBounds, groups: Sequence[KVGroup]) -> StepMemory:  # noqa: ARG002
        """See `Backend.step_memory`: the plan's values as if all were float32, and the logits."""
        heads = 3 * bounds.heads + 2 * bounds.kv_heads
        per_token = 3 * bounds.hidden + (heads + 1) * bounds.head_dim + bounds.ffn
        logits = _whole_groups(bounds.rows) * bounds.vocab
        activations = _FP32_BYTES * (bounds.tokens * per_token + logits)
        return StepMemory(activations + _PARTIAL_BYTES, 0)

    def matrix(self, spec: MatrixSpec) -> PackedSink:
        """See `Backend.matrix`."""
        return PackedSink(self._library, self._memory, self._traits.weights, spec)

    def runner(
        self,
        model: StepModel,
        groups: Sequence[KVGroup],
        blocks: int,
        max_tokens: int,
        max_rows: int,
    ) -> "NativeRunner":
        """See `Backend.runner`."""
        return NativeRunner(self, model, groups, blocks, max_tokens, max_rows)

    @property
    def handle(self) -> ctypes.CDLL:
        """The opened library."""
        return self._library.handle

    @property
    def pool(self) -> int:
        """Address of the threads."""
        pool: int = self._pool
        return pool


class NativeRunner:
    """A `StepRunner` that replays a recorded plan."""

    def __init__(
        self,
        backend: NativeBackend,
        model: StepModel,
        groups: Sequence[KVGroup],
        blocks: int,
        max_tokens: int,
        max_rows: int,
    ) -> None:
        # The plan points into all of these.
        self._backend = backend
        self._model = model
        self._records = tuple(_records(blocks, group) for group in groups)
        self._handle = backend.handle
        program = record(model)
        self._program = program
        self._max_tokens = max_tokens
        self._max_rows = max_rows
        head = program.ops[-1].node
        self._vocab = head.columns
        # Of a head that is a linear layer, any number of rows can be computed a few at a time.
        self._headed = head.kind is OpKind.LINEAR and head.residual is None
        self._hidden = head.input if head.input is not None and self._headed else None
        self._plan = self._build(program, model, groups, max_tokens, max_rows)
        self._step = plan_abi.Step()
        self._tables = (ctypes.c_void_p * len(groups))()
        self._strides = (ctypes.c_int64 * len(groups))()
        self._step.tables = ctypes.addressof(self._tables)
        self._step.table_strides = ctypes.addressof(self._strides)
        self._drawn = np.empty(max_rows, np.int32)

    @property
    def records(self) -> Sequence[NDArray[np.uint8]]:
        """See `StepRunner.records`."""
        return self._records

    def run(self, inputs: StepInputs, draws: Draws) -> list[int]:
        """See `StepRunner.run`."""
        rows = len(inputs.logit_rows_N)
        if rows > self._max_rows:
            raise ValueError(f"{rows} rows, the plan draws {self._max_rows}")
        step = self._step
        step.drawn = _address(self._drawn)
        step.drawn_rows = step.head_rows = rows
        shaping = self._set_draws(draws)
        self._run(inputs)
        del shaping  # which the plan has read
        tokens: list[int] = self._drawn[:rows].tolist()
        return tokens

    def run_scored(self, inputs: StepInputs, draws: Draws, wanted: Wanted) -> StepYield:
        """See `StepRunner.run_scored`."""
        rows, drawn, scored = len(inputs.logit_rows_N), len(draws), len(wanted.tops_S)
        if drawn > self._max_rows or (scored > self._max_rows and not self._headed):
            raise ValueError(
                f"{drawn} rows to draw, {scored} to score; the plan has {self._max_rows}"
            )
        hidden_HE = np.empty((0, 0), np.float32)
        if rows > scored:
            if self._hidden is None or self._hidden.kind is not OpKind.NORM:
                raise ValueError("the model has no final norm whose result could be handed out")
            hidden_HE = np.empty((rows - scored, self._hidden.columns), np.float32)
        tokens_S = np.empty(scored, np.int32)
        tokens_S[drawn:] = wanted.targets_P
        scores = Scores.room(scored, wanted.most_tops)
        step = self._step
        step.drawn = _address(tokens_S)
        step.drawn_rows, step.head_rows = drawn, scored
        step.tops, step.top_stride = _address(wanted.tops_S), wanted.most_tops
        step.logprobs, step.ranks = _address(scores.logprobs_S), _address(scores.ranks_S)
        step.top_ids = _address(scores.top_ids_SK)
        step.top_logprobs = _address(scores.top_logprobs_SK)
        step.hidden = _address(hidden_HE) if rows > scored else None
        shaping = self._set_draws(draws)
        try:
            self._run(inputs)
        finally:
            step.tops = step.hidden = None
        del shaping
        return StepYield(tokens_S[:drawn].tolist(), scores, hidden_HE)

    def logits(self, inputs: StepInputs) -> NDArray[np.float32]:
        """See `StepRunner.logits`."""
        logits_NV = np.empty((len(inputs.logit_rows_N), self._vocab), np.float32)
        step = self._step
        step.logits = _address(logits_NV)
        step.temperatures = None
        step.drawn_rows, step.head_rows = 0, len(logits_NV)
        self._run(inputs)
        return logits_NV

    def phase_times(self) -> dict[str, float]:
        """Seconds spent in each kind of phase since the last call; the first one starts the clock.

        The clock costs a few microseconds per step, so it only runs once somebody asks.
        """
        self._handle.ng_plan_time(self._plan, 1)
        count = self._handle.ng_plan_timings(self._plan, None, None, 0, 0)
        kinds, spent = (ctypes.c_int32 * count)(), (ctypes.c_int64 * count)()
        self._handle.ng_plan_timings(self._plan, kinds, spent, count, 1)
        times: dict[str, float] = {}
        for kind, nanoseconds in zip(kinds, spent, strict=True):
            name = _PHASES.get(kind) or OpKind(kind // 8).name.lower()
            times[name] = times.get(name, 0.0) + nanoseconds / 1e9
        return times

    def _set_draws(self, draws: Draws) -> object:
        """Points the step to the draws; what it returns must live until the step has run."""
        step = self._step
        step.logits = None
        step.temperatures = _address(draws.temperatures_N)
        step.top_k = _address(draws.top_k_N)
        step.top_p = _address(draws.top_p_N)
        step.seeds = _address(draws.seeds_N)
        step.draw_positions = _address(draws.positions_N)
        step.min_p = None if draws.min_p_N is None else _address(draws.min_p_N)
        if not draws.shapings:
            step.shaping_of = None
            return None
        shapings = (plan_abi.Shaping * len(draws.shapings))(*map(_shaping, draws.shapings))
        shaping_of_N = np.full(len(draws), -1, np.int32)
        shaping_of_N[[shaping.row for shaping in draws.shapings]] = range(len(draws.shapings))
        step.shapings = ctypes.addressof(shapings)
        step.shaping_of = _address(shaping_of_N)
        return shapings, shaping_of_N

    def _run(self, inputs: StepInputs) -> None:
        if len(inputs.token_ids_T) > self._max_tokens:
            raise ValueError(f"{len(inputs.token_ids_T)} tokens, the plan has {self._max_tokens}")
        step = self._step
        step.tokens = len(inputs.token_ids_T)
        step.slices = len(inputs.context_lens_R)
        step.logit_rows = len(inputs.logit_rows_N)
        step.token_ids = _address(inputs.token_ids_T)
        step.positions = _address(inputs.positions_T)
        step.query_starts = _address(inputs.query_starts)
        step.context_lens = _address(inputs.context_lens_R)
        step.logit_row_ids = _address(inputs.logit_rows_N)
        for index, group in enumerate(inputs.groups):
            self._tables[index] = _address(group.block_tables_RM)
            self._strides[index] = group.block_tables_RM.shape[1]
        code = self._handle.ng_plan_run(self._plan, step)
        if code == plan_abi.BAD_TOKEN:
            raise ValueError("a token id is outside the rows of the embedding")
        if code:
            raise MemoryError("no memory left to run the step")

    def _build(
        self,
        program: Program,
        model: StepModel,
        groups: Sequence[KVGroup],
        max_tokens: int,
        max_rows: int,
    ) -> int:
        handle = self._handle
        frequencies = model.inverse_frequencies
        plan = handle.ng_plan_create(
            self._backend.pool, max_tokens, self._vocab, _address(frequencies), len(frequencies)
        )
        if not plan:
            raise MemoryError("no memory left for the plan")
        weakref.finalize(self, handle.ng_plan_destroy, plan)
        for group, records in zip(groups, self._records, strict=True):
            _checked(handle.ng_plan_group(plan, _group(group, records)))
        values = [
            _checked(
                handle.ng_plan_value(
                    plan,
                    _whole_groups(max_rows) if memory.logits else max_tokens,
                    memory.columns,
                    memory.form,
                    memory.rows is Rows.LOGITS,
                )
            )
            for memory in program.memory
        ]
        for op in program.ops:
            _checked(handle.ng_plan_op(plan, _op(op, values)))
        _checked(handle.ng_plan_finish(plan, values[program.ops[-1].output]))
        address: int = plan
        return address


def _records(blocks: int, group: KVGroup) -> NDArray[np.uint8]:
    """Zero pages of the system that begin at a cache line, resident only once written."""
    size = blocks * group.record_bytes
    raw = np.zeros(size + _LINE_BYTES, np.uint8)
    begin = -raw.ctypes.data % _LINE_BYTES
    return raw[begin : begin + size].reshape(blocks, group.record_bytes)


def _whole_groups(rows: int) -> int:
    return -(-rows // _ROW_GROUP) * _ROW_GROUP


def _shaping(shaping: Shaping) -> plan_abi.Shaping:
    return plan_abi.Shaping(
        _address(shaping.bias_ids_A),
        _address(shaping.bias_A),
        _address(shaping.banned_ids_B),
        _address(shaping.seen_ids_C),
        _address(shaping.seen_counts_C),
        len(shaping.bias_ids_A),
        len(shaping.banned_ids_B),
        len(shaping.seen_ids_C),
        shaping.repetition,
        shaping.frequency,
        shaping.presence,
    )


def _address(array: NDArray[np.generic]) -> int:
    # A third of the time that `array.ctypes.data` takes.
    address: int = array.__array_interface__["data"][0]
    return address


def _checked(code: int) -> int:
    if code < 0:
        raise MemoryError("no memory left for the plan")
    return code


def _group(group: KVGroup, records: NDArray[np.uint8]) -> plan_abi.Group:
    return plan_abi.Group(
        format=_KV_CODES[group.dtype],
        layers=len(group.layers),
        kv_heads=group.kv_heads,
        head_dim=group.head_dim,
        block_tokens=group.block_tokens,
        records=_address(records),
    )


def _op(op: NativeOp, values: Sequence[int]) -> plan_abi.Op:
    node = op.node
    made = plan_abi.Op(
        kind=op.kind,
        input=values[op.input] if op.input >= 0 else 0,
        output=values[op.output],
        residual=values[op.residual] if op.residual >= 0 else -1,
        activation=_ACTIVATIONS[node.activation],
        eps=node.eps,
    )
    if op.kind is OpKind.QUANTIZE:
        return made
    if node.weight is not None:
        made.weight_format = node.weight.format
        made.rows, made.columns = node.weight.shape
        made.data = _address(node.weight.data)
        if node.weight.bias_O is not None:
            made.bias = _address(node.weight.bias_O)
    if node.gain is not None:
        made.gain = _address(node.gain)
    if node.attention is not None:
        made.group, made.layer = node.attention.group, node.attention.layer
        made.heads, made.window = node.attention.heads, node.attention.window or 0
    return made
