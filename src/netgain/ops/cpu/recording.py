"""Records a model's forward pass and lowers it to a few native operations per layer.

Dimensions: T tokens of the step, N rows that need logits.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from netgain.ops.cpu.plan_abi import OpKind
from netgain.ops.cpu.weights import Form, PackedWeight, packed
from netgain.ops.interface import Activation, AttentionSpec, StepModel
from netgain.ops.weights import LinearWeight

_SCALED: Final = 64
"""Features that share a scale where they are quantised (`kScaled` of formats.h)."""


class Rows(enum.Enum):
    """How many rows a value has."""

    TOKENS = "T"
    LOGITS = "N"


@dataclass(eq=False, slots=True)
class Node:
    """One recorded call; stands for its result, `columns` wide."""

    kind: OpKind
    columns: int
    rows: Rows
    input: "Node | None" = None
    residual: "Node | None" = None
    weight: PackedWeight | None = None
    gain: NDArray[np.float32] | None = None
    eps: float = 0.0
    activation: Activation = Activation.SILU
    attention: AttentionSpec | None = None


class Recorder:
    """Implements `StepOps` by remembering."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._attention: dict[int, AttentionSpec] = {}

    def embedding(self, table: LinearWeight) -> Node:
        """See `StepOps.embedding`."""
        weight = packed(table)
        return self._add(Node(OpKind.EMBED, weight.shape[1], Rows.TOKENS, weight=weight))

    def rms_norm(self, x_NE: Node, gain_E: NDArray[np.float32], eps: float) -> Node:
        """See `StepOps.rms_norm`."""
        gain = np.ascontiguousarray(gain_E, np.float32)
        return self._add(
            Node(OpKind.NORM, x_NE.columns, x_NE.rows, x_NE, gain=gain, eps=float(eps))
        )

    def linear(self, x_NI: Node, weight: LinearWeight, residual_NO: Node | None = None) -> Node:
        """See `StepOps.linear`."""
        matrix = packed(weight)
        return self._add(Node(OpKind.LINEAR, matrix.shape[0], x_NI.rows, x_NI, residual_NO, matrix))

    def gated(self, x_NI: Node, gate_up: LinearWeight, activation: Activation) -> Node:
        """See `StepOps.gated`."""
        matrix = packed(gate_up)
        return self._add(
            Node(
                OpKind.GATED,
                matrix.shape[0] // 2,
                x_NI.rows,
                x_NI,
                weight=matrix,
                activation=activation,
            )
        )

    def attention(self, qkv_TJ: Node, spec: AttentionSpec) -> Node:
        """See `StepOps.attention`."""
        first = self._attention.setdefault(spec.group, spec)
        if (first.heads, first.window) != (spec.heads, spec.window):
            raise ValueError("layers of one KV group must agree in query heads and window")
        columns = spec.heads * spec.head_dim
        return self._add(Node(OpKind.ATTENTION, columns, qkv_TJ.rows, qkv_TJ, attention=spec))

    def logit_rows(self, x_TE: Node) -> Node:
        """See `StepOps.logit_rows`."""
        return self._add(Node(OpKind.LOGIT_ROWS, x_TE.columns, Rows.LOGITS, x_TE))

    def head(self, x_NE: Node, weight: LinearWeight) -> Node:
        """See `StepOps.head`."""
        return self.linear(x_NE, weight)

    def _add(self, node: Node) -> Node:
        self.nodes.append(node)
        return node


@dataclass(frozen=True, slots=True)
class Memory:
    """One piece of memory that values take turns in; `logits`: the last value's, never shared."""

    columns: int
    form: Form
    rows: Rows
    logits: bool = False


@dataclass(frozen=True, slots=True)
class NativeOp:
    """A node, or the quantisation of its result, with indices into `Program.memory`.

    `input` and `residual` are -1 where there is none.
    """

    node: Node
    kind: OpKind
    input: int
    output: int
    residual: int = -1


@dataclass(slots=True)
class Program:
    """What the native plan is told."""

    memory: list[Memory] = field(default_factory=list)
    ops: list[NativeOp] = field(default_factory=list)


def record(model: StepModel) -> Program:
    """Runs the model's forward pass once and lowers what it called."""
    recorder = Recorder()
    result = model.forward(recorder)
    return _Lowering(recorder.nodes, result).program


def _quantises(node: Node) -> bool:
    """Whether the node can hand over its result quantised, without a pass of its own."""
    match node.kind:
        case OpKind.NORM | OpKind.GATED:
            return True
        case OpKind.ATTENTION:
            assert node.attention is not None
            return node.attention.head_dim % _SCALED == 0
        case _:
            return False


class _Lowering:
    """Decides in which form each value is needed, and which memory it takes."""

    def __init__(self, nodes: Sequence[Node], result: Node) -> None:
        self.program = Program()
        self._result = result
        self._free: list[int] = []
        self._place: dict[tuple[Node, Form], int] = {}
        # Index of the last node that reads each form of a value; the result is never given up.
        self._last: dict[tuple[Node, Form], int] = {(result, Form.FLOAT32): len(nodes)}
        for index, node in enumerate(nodes):
            for value, form in _reads(node):
                self._last[value, form] = index
        for index, node in enumerate(nodes):
            self._lower(index, node)

    def _lower(self, index: int, node: Node) -> None:
        forms = [form for form in Form if (node, form) in self._last]
        source = self._source(node)
        residual = -1 if node.residual is None else self._place[node.residual, Form.FLOAT32]
        straight = forms[0] if len(forms) == 1 and _quantises(node) else Form.FLOAT32
        output = self._output(index, node, straight)
        self.program.ops.append(NativeOp(node, node.kind, source, output, residual))
        self._release(index, keep=output)
        for form in forms:
            if form not in (straight, Form.FLOAT32):
                second = self._take(Memory(node.columns, form, node.rows))
                self._place[node, form] = second
                self.program.ops.append(NativeOp(node, OpKind.QUANTIZE, output, second))
        if straight not in forms:  # read in other forms only, or by nobody
            self._free.append(output)

    def _source(self, node: Node) -> int:
        if node.input is None:
            return -1
        return self._place[node.input, _form_read(node)]

    def _output(self, index: int, node: Node, form: Form) -> int:
        residual = node.residual
        if (
            residual is not None
            and residual is not node.input  # which other tiles may still have to read
            and node is not self._result  # which may be wanted in the caller's memory
            and self._last[residual, Form.FLOAT32] == index
        ):
            place = self._place.pop((residual, Form.FLOAT32))  # written where the residual was
        else:
            place = self._take(Memory(node.columns, form, node.rows, logits=node is self._result))
        self._place[node, form] = place
        return place

    def _release(self, index: int, keep: int) -> None:
        """Gives up the memory of values that nobody reads any more."""
        for value, last in self._last.items():
            if last == index and value in self._place:
                place = self._place.pop(value)
                if place != keep:
                    self._free.append(place)

    def _take(self, wanted: Memory) -> int:
        for position, place in enumerate(self._free):
            if self.program.memory[place] == wanted:
                return self._free.pop(position)
        self.program.memory.append(wanted)
        return len(self.program.memory) - 1


def _form_read(node: Node) -> Form:
    return Form.FLOAT32 if node.weight is None else node.weight.reads


def _reads(node: Node) -> list[tuple[Node, Form]]:
    """The values a node reads, and in which form."""
    reads: list[tuple[Node, Form]] = []
    if node.input is not None:
        reads.append((node.input, _form_read(node)))
    if node.residual is not None:
        reads.append((node.residual, Form.FLOAT32))
    return reads
