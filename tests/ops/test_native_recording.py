"""The memory that a recorded forward pass is given: every operation finds what it reads."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netgain.ops.cpu.packing import PackedFormat
from netgain.ops.cpu.plan_abi import OpKind
from netgain.ops.cpu.recording import Node, Program, record
from netgain.ops.cpu.weights import Form, PackedWeight
from netgain.ops.interface import Activation, StepOps, Value

COLUMNS = 64
FORMS = {
    PackedFormat.FP32: Form.FLOAT32,
    PackedFormat.BF16: Form.FLOAT32,
    PackedFormat.Q8_0: Form.TWELVE_BITS,
    PackedFormat.Q4_0: Form.PAIRS,
    PackedFormat.Q4_1: Form.PAIRS,
}


def weight(packed_format: PackedFormat, rows: int = COLUMNS) -> PackedWeight:
    return PackedWeight(packed_format, (rows, COLUMNS), np.zeros(0, np.uint8), None)


class Layers:
    """Each a choice of operation, weight format, input and residual among the values before."""

    inverse_frequencies = np.ones(2, np.float32)

    def __init__(self, layers: list[tuple[str, PackedFormat, int, int]]) -> None:
        self.layers = layers
        self.values: list[object] = []

    def forward(self, ops: StepOps[Value]) -> Value:
        values = [ops.embedding(weight(PackedFormat.Q8_0))]
        for kind, packed_format, reads, adds in self.layers:
            x = values[reads % len(values)]
            if kind == "norm":
                made = ops.rms_norm(x, np.ones(COLUMNS, np.float32), 1e-5)
            elif kind == "gated":
                made = ops.gated(x, weight(packed_format, 2 * COLUMNS), Activation.SILU)
            else:
                residual = values[adds % len(values)] if adds >= 0 else None
                made = ops.linear(x, weight(packed_format), residual)
            values.append(made)
        self.values = list(values)
        return ops.head(values[-1], weight(PackedFormat.Q8_0))


def assert_reads_what_was_written(program: Program) -> None:
    holds: dict[int, tuple[Node, Form]] = {}
    for op in program.ops:
        node = op.node
        if op.kind is OpKind.QUANTIZE:
            assert holds[op.input] == (node, Form.FLOAT32)
        elif node.input is not None:
            form = FORMS[node.weight.format] if node.weight else Form.FLOAT32
            assert holds[op.input] == (node.input, form)
        if op.residual >= 0:
            assert holds[op.residual] == (node.residual, Form.FLOAT32)
        holds[op.output] = node, program.memory[op.output].form
    last = program.ops[-1]
    assert holds[last.output] == (last.node, Form.FLOAT32)


layers = st.tuples(
    st.sampled_from(["norm", "linear", "gated"]),
    st.sampled_from(list(FORMS)),
    st.integers(0, 50),
    st.integers(-1, 50),
)


@given(st.lists(layers, max_size=12))
def test_every_operation_finds_what_it_reads_in_the_form_it_reads(
    chosen: list[tuple[str, PackedFormat, int, int]],
) -> None:
    assert_reads_what_was_written(record(Layers(chosen)))


def quantised_from(program: Program, node: object) -> list[Form]:
    """The forms that one value is turned into by passes of their own."""
    ops = [op for op in program.ops if op.node is node and op.kind is OpKind.QUANTIZE]
    return [program.memory[op.output].form for op in ops]


def test_a_value_is_kept_in_each_form_that_is_read_and_in_no_other() -> None:
    norm, q4, q8 = ("norm", PackedFormat.FP32, 0, -1), PackedFormat.Q4_1, PackedFormat.Q8_0
    one = Layers([norm, ("linear", q4, 1, -1), ("linear", q4, 1, 2)])
    program = record(one)
    assert not quantised_from(program, one.values[1])  # the norm hands it over
    both = Layers([norm, ("linear", q4, 1, -1), ("linear", q8, 1, 2)])
    program = record(both)
    assert quantised_from(program, both.values[1]) == [Form.TWELVE_BITS, Form.PAIRS]


@pytest.mark.parametrize("kind", ["norm", "linear"])
def test_memory_of_what_nobody_reads_any_more_is_used_again(kind: str) -> None:
    layers = [(kind, PackedFormat.Q4_1, i, -1) for i in range(20)]
    kept = [memory for memory in record(Layers(layers)).memory if memory.form is Form.FLOAT32]
    assert len(kept) <= 3
