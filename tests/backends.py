"""Which backends the tests run on: every one that is installed here."""

import os
from dataclasses import dataclass
from pathlib import Path

from netgain.hardware.host import usable_cores
from netgain.models.causal_lm import CausalLM
from netgain.models.checkpoint import open_checkpoint
from netgain.models.loading import load_model
from netgain.ops.backend import Backend
from netgain.ops.choices import BackendName, KVFormat, Numerics, WeightFormat
from netgain.ops.selection import make_backend, native_is_there


def backends() -> tuple[BackendName, ...]:
    """For `pytest.mark.parametrize`, and for fixtures' `params`."""
    return (BackendName.TORCH, *([BackendName.NATIVE] if native_is_there() else []))


def usual() -> BackendName:
    """The backend that `auto` is here."""
    return backends()[-1]


def backend(
    name: BackendName = BackendName.TORCH,
    weights: WeightFormat = WeightFormat.AUTO,
    kv_format: KVFormat = KVFormat.AUTO,
    numerics: Numerics = Numerics.AUTO,
) -> Backend:
    threads = int(os.environ.get("OMP_NUM_THREADS") or usable_cores())
    return make_backend(name, threads, weights, kv_format, numerics)


@dataclass(frozen=True)
class LoadedModel:
    """A model and the backend that holds its weights."""

    model: CausalLM
    backend: Backend


def load(
    path: Path,
    name: BackendName = BackendName.TORCH,
    weights: WeightFormat = WeightFormat.FP32,
    kv_format: KVFormat = KVFormat.FP32,
) -> LoadedModel:
    """In float32 unless told otherwise: what an oracle can be compared with."""
    made = backend(name, weights, kv_format)
    return LoadedModel(load_model(open_checkpoint(path), made)[0], made)
