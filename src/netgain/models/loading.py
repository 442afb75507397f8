"""From a checkpoint to a model in memory, tensor by tensor, timed."""

import time
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from netgain.errors import ModelError
from netgain.models.causal_lm import CausalLM
from netgain.models.checkpoint import Checkpoint
from netgain.models.config import ModelConfig
from netgain.models.gguf_tensors import gguf_tensors
from netgain.models.load_timings import LoadTimings, WeightPart
from netgain.models.parameters import Parameter, Piece, parameters
from netgain.models.registry import MODELS
from netgain.models.row_reader import RowReader
from netgain.models.safetensors_tensors import safetensors_tensors
from netgain.models.stored_tensors import StoredTensor, StoredTensors
from netgain.ops.backend import Backend
from netgain.ops.stored import to_float32
from netgain.ops.weights import LinearWeight, MatrixSpec

_FP32_BYTES: Final = 4


def load_model(checkpoint: Checkpoint, backend: Backend) -> tuple[CausalLM, LoadTimings]:
    """Reads all weights into the backend's formats and builds the model.

    The timings hold `read` and `convert`; the caller adds the later parts. Raises `ModelError`
    for a tensor that is missing, unknown, of the wrong shape, or cut short.
    """
    timings = LoadTimings()
    config = checkpoint.config
    wanted = parameters(config)
    stored = _checked(checkpoint, wanted)
    with RowReader(timings) as reader:
        loader = _Loader(reader, stored, timings)
        vectors = {p.name: loader.vector(p) for p in wanted if not p.is_matrix}
        matrices = {
            spec.name: loader.matrix(parameter, spec, vectors.pop(_bias(spec.name), None), backend)
            for parameter, spec in _specs(wanted, stored)
        }
    return MODELS[config.architecture](config, matrices, vectors), timings


def matrix_specs(checkpoint: Checkpoint) -> list[MatrixSpec]:
    """The matrices that `load_model` would load. Raises `ModelError` like it."""
    wanted = parameters(checkpoint.config)
    return [spec for _, spec in _specs(wanted, _checked(checkpoint, wanted))]


def resident_bytes(checkpoint: Checkpoint, backend: Backend) -> int:
    """Bytes the weights will take in memory. Raises `ModelError` like `load_model`."""
    wanted = parameters(checkpoint.config)
    specs = matrix_specs(checkpoint)
    biases = {_bias(spec.name) for spec in specs if spec.has_bias}
    vectors = sum(p.elements for p in wanted if not p.is_matrix and p.name not in biases)
    return sum(map(backend.resident_bytes, specs)) + _FP32_BYTES * vectors


class _Loader:
    """Moves rows from files to where they belong."""

    def __init__(self, reader: RowReader, stored: StoredTensors, timings: LoadTimings) -> None:
        self._reader = reader
        self._stored = stored
        self._timings = timings

    def vector(self, parameter: Parameter) -> NDArray[np.float32]:
        values = np.empty(parameter.shape, np.float32)
        for piece in parameter.pieces:
            places = self._destinations(piece)
            for rows in self._reader.rows(self._stored.tensors[piece.source]):
                values[places] = to_float32(rows.kind, rows.data)[0]
        return values

    def matrix(
        self,
        parameter: Parameter,
        spec: MatrixSpec,
        bias_O: NDArray[np.float32] | None,
        backend: Backend,
    ) -> LinearWeight:
        sink = backend.matrix(spec)
        for piece in parameter.pieces:
            places = self._destinations(piece)
            for rows in self._reader.rows(self._stored.tensors[piece.source]):
                middle = time.perf_counter()
                sink.write(places[rows.first_row : rows.first_row + len(rows.data)], rows)
                self._timings.add(WeightPart.CONVERT, time.perf_counter() - middle)
        began = time.perf_counter()
        weight = sink.finish(bias_O)
        self._timings.add(WeightPart.CONVERT, time.perf_counter() - began)
        return weight

    def _destinations(self, piece: Piece) -> NDArray[np.int32]:
        """The parameter's row of each row of the piece."""
        places = np.arange(piece.first_row, piece.first_row + piece.shape[0], dtype=np.int32)
        if piece.rotary_heads and self._stored.interleaved_rotary:
            # From pairs (2 i, 2 i + 1) of a head to our (i, i + D/2).
            places = places.reshape(piece.rotary_heads, 2, -1).swapaxes(1, 2).reshape(-1)
        return places


def _specs(
    wanted: Sequence[Parameter], stored: StoredTensors
) -> list[tuple[Parameter, MatrixSpec]]:
    names = {parameter.name for parameter in wanted}
    found = []
    for parameter in wanted:
        if parameter.is_matrix:
            rows, columns = parameter.shape
            kinds = dict.fromkeys(stored.tensors[piece.source].kind for piece in parameter.pieces)
            spec = MatrixSpec(
                parameter.name,
                (rows, columns),
                tuple(kinds),
                has_bias=_bias(parameter.name) in names,
                embedding=parameter.name == "embedding",
                gated=parameter.gated,
            )
            found.append((parameter, spec))
    return found


def _bias(matrix: str) -> str:
    return f"{matrix}.bias"


def _checked(checkpoint: Checkpoint, wanted: Sequence[Parameter]) -> StoredTensors:
    """The checkpoint's tensors, all that is needed and nothing unknown."""
    header = checkpoint.header
    stored = gguf_tensors(header) if header else safetensors_tensors(checkpoint.weight_files)
    _check(checkpoint, wanted, stored.tensors)
    return stored


def _check(
    checkpoint: Checkpoint, wanted: Sequence[Parameter], tensors: Mapping[str, StoredTensor]
) -> None:
    pieces = {piece.source: piece for parameter in wanted for piece in parameter.pieces}
    missing = [name for name in pieces if name not in tensors]
    if missing:
        raise ModelError(f"{checkpoint.path}: {_list('missing', missing)}")
    extra = [name for name in tensors if name not in pieces and not _spare(name, checkpoint.config)]
    if extra:
        raise ModelError(f"{checkpoint.path}: {_list('unknown', extra)}")
    for name, piece in pieces.items():
        if tensors[name].shape != piece.shape:
            raise ModelError(
                f"{checkpoint.path}: tensor {name} has shape {tensors[name].shape}, "
                f"the config asks for {piece.shape}"
            )


def _list(problem: str, names: Sequence[str]) -> str:
    shown = ", ".join(names[:5])
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"{problem} tensors: {shown}{more}"


def _spare(name: str, config: ModelConfig) -> bool:
    """Tensors some exporters write though they follow from the others."""
    tied_head = config.tie_embeddings and name == "lm_head.weight"
    return tied_head or name.endswith("rotary_emb.inv_freq")
