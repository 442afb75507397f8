"""The seam between the engine and whoever computes: a step is one call.

Dimensions: N rows that need logits, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from netgain.kv.geometry import KVDType, KVGroup
from netgain.ops.choices import BackendName, Numerics, WeightFormat
from netgain.ops.draws import Draws
from netgain.ops.interface import StepModel
from netgain.ops.scores import StepYield, Wanted
from netgain.ops.step_inputs import StepInputs
from netgain.ops.weights import MatrixSink, MatrixSpec


@dataclass(frozen=True, slots=True)
class BackendTraits:
    """What a backend is and what it made of the user's choices; no `AUTO` in here.

    `isa`: the instruction set of its kernels. `kv_layout`: names how a record lies in memory; two
    engines may exchange records only if it is equal (and dtype and geometry are).
    """

    name: BackendName
    isa: str
    threads: int
    weights: WeightFormat
    kv_dtype: KVDType
    kv_layout: str
    numerics: Numerics


@dataclass(frozen=True, slots=True)
class StepBounds:
    """The largest step there will be, and the model's sizes, for the memory plan.

    `tokens`: most of a step. `rows`: most slices, and most rows that need logits. `context`: most
    tokens of a sequence.
    """

    tokens: int
    rows: int
    context: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int


@dataclass(frozen=True, slots=True)
class StepMemory:
    """Bytes that running steps takes beside weights and the KV pool.

    `activation_bytes`: at the peak of the largest step. `gathered_block_bytes`: per block of the
    pool, where a backend copies keys and values together to attend to them.
    """

    activation_bytes: int
    gathered_block_bytes: int


class StepRunner(Protocol):
    """One model over one KV pool. Every call comes from the thread that loaded the weights."""

    @property
    def records(self) -> Sequence[NDArray[np.uint8]]:
        """Per KV group `[blocks, record_bytes]`: the pool itself, opaque bytes.

        Pages become resident only when written. Block 0 is scratch.
        """

    def run(self, inputs: StepInputs, draws: Draws) -> list[int]:
        """Runs one step, stores its keys and values, and draws a token per logit row."""

    def run_scored(self, inputs: StepInputs, draws: Draws, wanted: Wanted) -> StepYield:
        """`run` for steps that are asked for more; there may be fewer draws than logit rows.

        Never holds logits of more rows than `max_rows` (and a few).
        """

    def logits(self, inputs: StepInputs) -> NDArray[np.float32]:
        """Runs one step and returns its logits `[N, V]`, for tests and for measuring accuracy.

        What `run` would draw from. The array is the caller's.
        """


class Backend(Protocol):
    """Makes weights and runners; made by `ops.selection.make_backend`."""

    @property
    def traits(self) -> BackendTraits:
        """What it is."""

    def resident_bytes(self, spec: MatrixSpec) -> int:
        """Bytes a matrix will take in memory, for the plan before loading."""

    def step_memory(self, bounds: StepBounds, groups: Sequence[KVGroup]) -> StepMemory:
        """What the largest step will take."""

    def matrix(self, spec: MatrixSpec) -> MatrixSink:
        """Begins a matrix. Raises `ModelError` for formats it cannot take in."""

    def runner(
        self,
        model: StepModel,
        groups: Sequence[KVGroup],
        blocks: int,
        max_tokens: int,
        max_rows: int,
    ) -> StepRunner:
        """A runner over fresh records of `blocks` blocks (scratch included) per group.

        `max_tokens`: most tokens of a step; `max_rows`: most slices, and most rows drawn from;
        `logits` and `run_scored` take as many rows as tokens.
        """
