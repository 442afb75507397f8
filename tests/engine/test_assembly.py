"""What settings make of an engine, and which engines may share KV."""

from dataclasses import replace
from pathlib import Path

import pytest

from netgain import LLM
from netgain.engine.assembly import kv_fingerprint
from netgain.errors import ConfigurationError
from netgain.kv.geometry import KVDType
from netgain.models.checkpoint import open_checkpoint
from netgain.ops.backend import BackendTraits
from netgain.ops.choices import BackendName, Numerics, WeightFormat
from netgain.ops.selection import make_backend
from tests.tiny_checkpoints import random_weights, write_gguf

TRAITS = BackendTraits(
    name=BackendName.NATIVE,
    isa="AVX2",
    threads=2,
    weights=WeightFormat.AS_STORED,
    kv_dtype=KVDType.FP16,
    kv_layout="a",
    numerics=Numerics.INVARIANT,
)


def test_kv_is_shared_only_between_engines_that_compute_and_keep_it_alike(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(write_gguf(tmp_path / "a.gguf", random_weights()))
    same = kv_fingerprint(checkpoint, TRAITS)
    assert same == kv_fingerprint(checkpoint, replace(TRAITS, threads=8))
    others = [
        replace(TRAITS, name=BackendName.TORCH),
        replace(TRAITS, isa="AVX512"),
        replace(TRAITS, weights=WeightFormat.INT8),
        replace(TRAITS, kv_dtype=KVDType.INT8),
        replace(TRAITS, kv_layout="b"),
        replace(TRAITS, numerics=Numerics.FAST),
    ]
    different = open_checkpoint(write_gguf(tmp_path / "b.gguf", random_weights(seed=1)))
    found = {kv_fingerprint(checkpoint, traits) for traits in others}
    found |= {same, kv_fingerprint(different, TRAITS)}
    assert len(found) == 2 + len(others)


def test_kernels_that_are_not_there_are_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"run: .*; or use --backend torch"):
        make_backend(BackendName.NATIVE, threads=1, native_folder=tmp_path)


def test_without_kernels_torch_computes_and_one_line_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    backend = make_backend(BackendName.AUTO, threads=1, native_folder=tmp_path)
    assert backend.traits.name is BackendName.TORCH
    (record,) = caplog.records
    assert "slower without native kernels" in record.getMessage()
    assert "run: " in record.getMessage()


@pytest.mark.parametrize(
    ("argument", "complaint"),
    [
        ({"backend": "cuda"}, "backend: .*'torch'"),
        ({"weights": "int5"}, "weights: .*'as-stored'"),
        ({"kv_dtype": "fp8"}, "kv_dtype: .*'fp16'"),
        ({"numerics": "exact"}, "numerics: .*'invariant'"),
        ({"backend": "torch", "weights": "int8"}, "use --weights fp32"),
        ({"backend": "torch", "kv_dtype": "fp16"}, "use --kv-dtype fp32"),
        ({"backend": "torch", "numerics": "invariant"}, "use --numerics fast"),
    ],
    ids=str,
)
def test_what_an_engine_cannot_be_is_refused_before_a_model_is_looked_for(
    argument: dict[str, str], complaint: str
) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        LLM("never looked for", **argument)  # type: ignore[arg-type]
