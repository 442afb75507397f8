"""The reference backend: plain torch, float32, any CPU.

Dimensions: N rows that need logits, V vocabulary, B blocks, L layers of a KV group, S slots of a
block, K key-value heads, D head dim, 2 = key, value.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from netgain.errors import ConfigurationError
from netgain.kv.geometry import KVDType, KVGroup
from netgain.ops.backend import BackendTraits, StepBounds, StepMemory
from netgain.ops.choices import BackendName, KVFormat, Numerics, WeightFormat
from netgain.ops.draws import Draws
from netgain.ops.interface import StepModel
from netgain.ops.scores import Scores, StepYield, Wanted
from netgain.ops.step_inputs import StepInputs
from netgain.ops.torch_ops import TorchStepOps
from netgain.ops.torch_sampling import choose, score
from netgain.ops.torch_weights import DenseSink
from netgain.ops.weights import MatrixSpec

_FP32_BYTES: Final = 4


class TorchBackend:
    """A `Backend` of library calls.

    Raises `ConfigurationError` for formats it does not have. A row's matrix products may depend
    on the number of rows, so its numerics are never invariant.
    """

    def __init__(
        self,
        threads: int,
        weights: WeightFormat = WeightFormat.AUTO,
        kv_format: KVFormat = KVFormat.AUTO,
        numerics: Numerics = Numerics.AUTO,
    ) -> None:
        if weights not in (WeightFormat.AUTO, WeightFormat.FP32):
            raise ConfigurationError(
                f"--weights {weights}: the torch backend keeps weights in fp32; "
                "use --weights fp32, or --backend native"
            )
        if kv_format not in (KVFormat.AUTO, KVFormat.FP32):
            raise ConfigurationError(
                f"--kv-dtype {kv_format}: the torch backend keeps KV in fp32; "
                "use --kv-dtype fp32, or --backend native"
            )
        if numerics is Numerics.INVARIANT:
            raise ConfigurationError(
                "--numerics invariant: the torch backend cannot promise it, its matrix products "
                "depend on the number of rows; use --numerics fast, or --backend native"
            )
        torch.set_num_threads(threads)
        self._traits = BackendTraits(
            name=BackendName.TORCH,
            isa=torch.backends.cpu.get_cpu_capability(),
            threads=threads,
            weights=WeightFormat.FP32,
            kv_dtype=KVDType.FP32,
            kv_layout="layer,kv,head,token,dim",
            numerics=Numerics.FAST,
        )

    @property
    def traits(self) -> BackendTraits:
        """See `Backend.traits`."""
        return self._traits

    def resident_bytes(self, spec: MatrixSpec) -> int:
        """See `Backend.resident_bytes`."""
        rows, columns = spec.shape
        return _FP32_BYTES * (rows * columns + rows * spec.has_bias)

    def step_memory(self, bounds: StepBounds, groups: Sequence[KVGroup]) -> StepMemory:
        """See `Backend.step_memory`: the widest layer, a mask, logits of every sequence.

        Per token: residual, normed input, attention in and out, and gate, up and their product.
        The mask is of the largest chunk against the longest context. One layer's keys and values
        of all sequences are copied together for attention.
        """
        heads = 2 * bounds.heads + 2 * bounds.kv_heads
        per_token = 3 * bounds.hidden + heads * bounds.head_dim + 3 * bounds.ffn
        mask = min(bounds.tokens, bounds.context) * bounds.context
        logits = 2 * bounds.rows * bounds.vocab
        return StepMemory(
            activation_bytes=_FP32_BYTES * (bounds.tokens * per_token + mask + logits),
            gathered_block_bytes=max(group.record_bytes // len(group.layers) for group in groups),
        )

    def matrix(self, spec: MatrixSpec) -> DenseSink:
        """See `Backend.matrix`."""
        return DenseSink(spec)

    def runner(
        self,
        model: StepModel,
        groups: Sequence[KVGroup],
        blocks: int,
        max_tokens: int,  # noqa: ARG002 - torch allocates as it goes
        max_rows: int,
    ) -> "TorchRunner":
        """See `Backend.runner`."""
        return TorchRunner(model, groups, blocks, max_rows)


class TorchRunner:
    """A `StepRunner` that runs the model's forward pass eagerly."""

    def __init__(
        self, model: StepModel, groups: Sequence[KVGroup], blocks: int, max_rows: int
    ) -> None:
        self._model = model
        self._max_rows = max_rows
        self._inverse_frequencies = torch.from_numpy(model.inverse_frequencies)
        # numpy asks the system for zero pages; torch would write the zeros itself.
        self._records = tuple(np.zeros((blocks, group.record_bytes), np.uint8) for group in groups)
        self._records_BL2KSD = tuple(
            torch.from_numpy(record.view(np.float32)).view(blocks, *group.record_shape)
            for record, group in zip(self._records, groups, strict=True)
        )

    @property
    def records(self) -> Sequence[NDArray[np.uint8]]:
        """See `StepRunner.records`."""
        return self._records

    @torch.inference_mode()
    def run(self, inputs: StepInputs, draws: Draws) -> list[int]:
        """See `StepRunner.run`."""
        ops = self._ops(inputs)
        return choose(ops.logits(self._model.forward(ops)), draws)

    @torch.inference_mode()
    def run_scored(self, inputs: StepInputs, draws: Draws, wanted: Wanted) -> StepYield:
        """See `StepRunner.run_scored`."""
        ops = self._ops(inputs)
        result_NE = self._model.forward(ops)
        drawn, scored = len(draws), len(wanted.tops_S)
        scores = Scores.room(scored, wanted.most_tops)
        # Rows drawn from are a group of their own, so that they are computed as `run` does.
        logits_DV = ops.logits(result_NE[:drawn])
        tokens = choose(logits_DV, draws)
        score(logits_DV, tokens, wanted.tops_S, scores, 0)
        targets: list[int] = wanted.targets_P.tolist()
        for first in range(drawn, scored, self._max_rows):
            end = min(first + self._max_rows, scored)
            logits_GV = ops.logits(result_NE[first:end])
            score(logits_GV, targets[first - drawn : end - drawn], wanted.tops_S, scores, first)
        return StepYield(tokens, scores, result_NE[scored:].numpy())

    @torch.inference_mode()
    def logits(self, inputs: StepInputs) -> NDArray[np.float32]:
        """See `StepRunner.logits`."""
        ops = self._ops(inputs)
        logits_NV: NDArray[np.float32] = ops.logits(self._model.forward(ops)).numpy()
        return logits_NV

    def _ops(self, inputs: StepInputs) -> TorchStepOps:
        return TorchStepOps(inputs, self._records_BL2KSD, self._inverse_frequencies)
