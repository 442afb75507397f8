"""The least time a step can take: what it must read and multiply, over what the machine can do.

Counted by running the model's own forward pass over operations that only count.

Dimensions: T tokens of the step, N rows that need logits, H query heads, K key-value heads, D head
dim.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from netgain.kv.geometry import KVDType
from netgain.models.checkpoint import Checkpoint
from netgain.models.loading import matrix_specs
from netgain.models.parameters import parameters
from netgain.models.registry import MODELS
from netgain.ops.choices import BackendName, WeightFormat
from netgain.ops.cpu.ceilings import Ceilings
from netgain.ops.cpu.library import Unavailable, load
from netgain.ops.cpu.packing import PackedFormat
from netgain.ops.cpu.recording import Rows
from netgain.ops.cpu.weights import packed_format, resident_bytes
from netgain.ops.interface import Activation, AttentionSpec, StepModel
from netgain.ops.weights import LinearWeight

_TILE_PRODUCTS: Final = 2.0
"""Byte products that take a matrix unit as long as one of bfloat16, in which it multiplies."""
_BYTE_PRODUCTS: Final = {PackedFormat.Q8_0: 2.0, PackedFormat.Q4_0: 1.5, PackedFormat.Q4_1: 1.5}
"""For a weight and a row, by the format of the weight: see `Rounding` of formats.h."""


@dataclass(frozen=True, slots=True)
class CountedWeight:
    """A `LinearWeight` that is not there. `byte_products`: for each element and row; 0: it is
    multiplied in floats.
    """

    shape: tuple[int, int]
    stored_bytes: int
    byte_products: float


@dataclass(frozen=True, slots=True)
class StepWork:
    """What one step cannot do without. `floats`, `products`: multiply-adds of either kind."""

    read_bytes: int
    floats: int
    products: int

    def __add__(self, other: "StepWork") -> "StepWork":
        return StepWork(
            self.read_bytes + other.read_bytes,
            self.floats + other.floats,
            self.products + other.products,
        )


@dataclass(slots=True)
class CountingOps:
    """`StepOps` over row counts: notes which matrices meet which rows, and who attends."""

    matrices: list[tuple[Rows, CountedWeight]] = field(default_factory=list)
    attention_specs: list[AttentionSpec] = field(default_factory=list)

    def embedding(self, table: LinearWeight) -> Rows:  # noqa: ARG002
        """A lookup: nothing to multiply."""
        return Rows.TOKENS

    def rms_norm(self, x_NE: Rows, gain_E: NDArray[np.float32], eps: float) -> Rows:  # noqa: ARG002
        """Too little to count."""
        return x_NE

    def linear(self, x_NI: Rows, weight: LinearWeight, residual_NO: Rows | None = None) -> Rows:  # noqa: ARG002
        """Every weight with every row."""
        assert isinstance(weight, CountedWeight)
        self.matrices.append((x_NI, weight))
        return x_NI

    def gated(self, x_NI: Rows, gate_up: LinearWeight, activation: Activation) -> Rows:  # noqa: ARG002
        """Every weight with every row."""
        return self.linear(x_NI, gate_up)

    def attention(self, qkv_TJ: Rows, spec: AttentionSpec) -> Rows:
        """See `ModelWork.step`."""
        self.attention_specs.append(spec)
        return qkv_TJ

    def head(self, x_NE: Rows, weight: LinearWeight) -> Rows:
        """See `StepOps.head`."""
        return self.linear(x_NE, weight)

    def logit_rows(self, x_TE: Rows) -> Rows:  # noqa: ARG002
        """From here on there are fewer rows."""
        return Rows.LOGITS


class ModelWork:
    """The work of any step of one model in one format of weights and KV."""

    def __init__(self, model: StepModel, kv_dtype: KVDType, *, tiled: bool = False) -> None:
        """`model`: made of `CountedWeight`s. `tiled`: attention is multiplied in bfloat16 on a
        matrix unit, where a multiply-add takes as long as two of bytes.
        """
        ops = CountingOps()
        model.forward(ops)
        self._matrices = ops.matrices
        self._attention = ops.attention_specs
        self._kv_dtype = kv_dtype
        self._tiled = tiled

    def step(self, slices: Sequence[tuple[int, int]], logit_rows: int) -> StepWork:
        """Slices of `(tokens before, tokens of this step)`.

        Every matrix is read once, and so are the keys and values of earlier steps that a slice
        sees; those of this step are still in a cache. A query and a position that it sees cost
        D multiply-adds for the score and D for the value.
        """
        rows = {Rows.TOKENS: sum(count for _, count in slices), Rows.LOGITS: logit_rows}
        read = floats = products = 0
        for kind, weight in self._matrices:
            out_features, in_features = weight.shape
            multiplied = rows[kind] * out_features * in_features
            read += weight.stored_bytes if rows[kind] else 0
            if weight.byte_products:
                products += round(weight.byte_products * multiplied)
            else:
                floats += multiplied
        for spec in self._attention:
            head_bytes = spec.head_dim * self._kv_dtype.element_bytes + self._kv_dtype.scale_bytes
            for before, count in slices:
                window = spec.window or before + count
                read += 2 * spec.kv_heads * head_bytes * min(before, window - 1)
                attended = 2 * spec.heads * spec.head_dim * pairs(before, count, window)
                if self._tiled:
                    products += 2 * attended
                else:
                    floats += attended
        return StepWork(read, floats, products)


def pairs(before: int, count: int, window: int) -> int:
    """Query and position pairs: each of `count` queries sees itself and up to `window - 1` earlier
    ones of the `before` and those of this step.
    """
    growing = min(max(window - before, 0), count)
    """Queries that still see everything."""
    full = growing * before + growing * (growing + 1) // 2
    return full + (count - growing) * window


def work_of(
    checkpoint: Checkpoint, backend: BackendName, weights: WeightFormat, kv_dtype: KVDType
) -> ModelWork:
    """The work of a checkpoint's model as a backend keeps it. Loads nothing."""
    config = checkpoint.config
    matrices: dict[str, LinearWeight] = {}
    tiled = False
    for spec in matrix_specs(checkpoint):
        if backend is BackendName.TORCH:
            matrices[spec.name] = CountedWeight(spec.shape, 4 * math.prod(spec.shape), 0.0)
            continue
        library = load()
        assert not isinstance(library, Unavailable), library.reason
        unit = library.isa == "amx"
        tiled = unit and kv_dtype is not KVDType.FP32
        byte_products = _BYTE_PRODUCTS.get(packed_format(weights, spec), 0.0)
        matrices[spec.name] = CountedWeight(
            spec.shape,
            resident_bytes(library, weights, spec),
            _TILE_PRODUCTS if unit and byte_products else byte_products,
        )
    vectors: Mapping[str, NDArray[np.float32]] = {
        parameter.name: np.zeros(parameter.shape, np.float32)
        for parameter in parameters(config)
        if not parameter.is_matrix
    }
    model = MODELS[config.architecture](config, matrices, vectors)
    return ModelWork(model, kv_dtype, tiled=tiled)


@dataclass(frozen=True, slots=True)
class Bound:
    """The least seconds of some work: reading and multiplying overlap, the two kinds of
    multiply-adds do not, since a thread does one after the other.
    """

    read_s: float
    compute_s: float

    @property
    def seconds(self) -> float:
        """Whichever takes longer."""
        return max(self.read_s, self.compute_s)


def bound(work: StepWork, ceilings: Ceilings) -> Bound:
    """The least time of `work` on a machine with these ceilings."""
    compute_s = work.floats / ceilings.float_s + work.products / ceilings.product_s
    return Bound(work.read_bytes / ceilings.read_bytes_s, compute_s)
