"""One operation between an embedding and the logits, so that any backend can be asked for it.

Dimensions: T tokens of the step, I features in, J features of a query, key and value row.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray
from tests.paged import flat_inputs, int32

from netgain.kv.geometry import KVGroup
from netgain.ops.backend import Backend, StepRunner
from netgain.ops.interface import Activation, AttentionSpec, StepOps, Value
from netgain.ops.step_inputs import StepInputs
from netgain.ops.stored import StoredRows, StoredType
from netgain.ops.weights import LinearWeight, MatrixSpec

NO_ROTATION: Final = np.zeros(8, np.float32)


def matrix(
    backend: Backend,
    values: NDArray[np.float32],
    bias: NDArray[np.float32] | None = None,
    *,
    embedding: bool = False,
    gated: bool = False,
) -> LinearWeight:
    """A float32 matrix, handed over in two chunks, the last rows first."""
    rows, columns = values.shape
    spec = MatrixSpec(
        "probe",
        (rows, columns),
        (StoredType.F32,),
        bias is not None,
        embedding=embedding,
        gated=gated,
    )
    sink = backend.matrix(spec)
    half = rows // 2
    for begin, end in ((half, rows), (0, half)):
        if begin < end:
            data = np.ascontiguousarray(values[begin:end]).view(np.uint8)
            sink.write(int32(range(begin, end)), StoredRows(begin, StoredType.F32, data))
    return sink.finish(bias)


@dataclass(frozen=True)
class AttentionProbe:
    """Rows of queries, keys and values by token id; their attention instead of logits."""

    table: LinearWeight
    spec: AttentionSpec
    inverse_frequencies: NDArray[np.float32]

    def forward(self, ops: StepOps[Value]) -> Value:
        return ops.logit_rows(ops.attention(ops.embedding(self.table), self.spec))


@dataclass(frozen=True)
class NormProbe:
    table: LinearWeight
    gain: NDArray[np.float32]
    eps: float
    inverse_frequencies: NDArray[np.float32] = field(default_factory=lambda: NO_ROTATION)

    def forward(self, ops: StepOps[Value]) -> Value:
        return ops.logit_rows(ops.rms_norm(ops.embedding(self.table), self.gain, self.eps))


@dataclass(frozen=True)
class LinearProbe:
    table: LinearWeight
    weight: LinearWeight
    inverse_frequencies: NDArray[np.float32] = field(default_factory=lambda: NO_ROTATION)

    def forward(self, ops: StepOps[Value]) -> Value:
        return ops.logit_rows(ops.linear(ops.embedding(self.table), self.weight))


@dataclass(frozen=True)
class GatedProbe:
    table: LinearWeight
    gate_up: LinearWeight
    activation: Activation
    inverse_frequencies: NDArray[np.float32] = field(default_factory=lambda: NO_ROTATION)

    def forward(self, ops: StepOps[Value]) -> Value:
        return ops.logit_rows(ops.gated(ops.embedding(self.table), self.gate_up, self.activation))


@dataclass(frozen=True)
class ResidualProbe:
    """`x + x @ weight.T`, the residual read again afterwards: `y + x @ weight.T`."""

    table: LinearWeight
    weight: LinearWeight
    inverse_frequencies: NDArray[np.float32] = field(default_factory=lambda: NO_ROTATION)

    def forward(self, ops: StepOps[Value]) -> Value:
        x = ops.embedding(self.table)
        y = ops.linear(x, self.weight, ops.embedding(self.table))
        return ops.logit_rows(ops.linear(x, self.weight, y))


def rows_of(
    runner: StepRunner, token_ids: Sequence[int], wanted: Sequence[int]
) -> NDArray[np.float32]:
    """What the probe makes of one prompt from position 0, at the wanted rows."""
    inputs = flat_inputs(token_ids, [(0, len(token_ids))], [list(range(1, 100))], wanted)
    return runner.logits(inputs)


@dataclass(frozen=True)
class Sequences:
    """Slices `(queries, context)` whose token ids count through: each row of a table is used once.

    `tables`: the blocks of each, scrambled.
    """

    slices: Sequence[tuple[int, int]]
    tables: Sequence[Sequence[int]]

    @property
    def tokens(self) -> int:
        return sum(context for _, context in self.slices)

    def ids(self, index: int) -> range:
        """Token ids of a sequence's positions."""
        first = sum(context for _, context in self.slices[:index])
        return range(first, first + self.slices[index][1])

    def attend(
        self, runner: StepRunner, chosen: Sequence[int] | None = None
    ) -> list[NDArray[np.float32]]:
        """Stores what lies before each slice, then runs the chosen ones (default: all) together.

        Results per slice.
        """
        chosen = range(len(self.slices)) if chosen is None else chosen
        before = [(0, context - count) for count, context in self.slices]
        for index in chosen:
            if before[index][1]:
                runner.logits(self._inputs([index], [before[index]], ()))
        spans = [(before[index][1], self.slices[index][1]) for index in chosen]
        counts = [self.slices[index][0] for index in chosen]
        found = runner.logits(self._inputs(chosen, spans, range(sum(counts))))
        return np.split(found, np.cumsum(counts)[:-1])

    def _inputs(
        self, chosen: Sequence[int], spans: Sequence[tuple[int, int]], rows: Sequence[int]
    ) -> StepInputs:
        tokens = [
            token
            for index, (first, end) in zip(chosen, spans, strict=True)
            for token in self.ids(index)[first:end]
        ]
        return flat_inputs(tokens, spans, [self.tables[index] for index in chosen], rows)


def runner_of(
    backend: Backend, probe: AttentionProbe, group: KVGroup, blocks: int, fill: int = 0
) -> StepRunner:
    runner = backend.runner(probe, [group], blocks, 1024, 1024)
    for record in runner.records:
        record.fill(fill)
    return runner
