"""What only the torch backend does, or refuses."""

import numpy as np
import pytest
import torch
from tests.backends import backend
from tests.ops.probes import LinearProbe, matrix
from tests.paged import flat_inputs

from netgain.errors import ConfigurationError
from netgain.kv.geometry import KVDType, KVGroup
from netgain.ops.choices import BackendName, KVFormat, Numerics, WeightFormat
from netgain.ops.torch_ops import TorchStepOps


def test_a_weight_format_without_a_kernel_is_refused() -> None:
    class Ternary:
        shape = (1, 1)
        stored_bytes = 1

    inputs = flat_inputs([0], [(0, 1)], [[1]], [0])
    with pytest.raises(TypeError, match="no kernel for Ternary"):
        TorchStepOps(inputs, [], torch.zeros(1)).linear(torch.zeros(1, 1), Ternary())


@pytest.mark.parametrize(
    ("weights", "kv_format", "numerics", "advice"),
    [
        (WeightFormat.INT8, KVFormat.AUTO, Numerics.AUTO, "--weights int8.*use --weights fp32"),
        (WeightFormat.AUTO, KVFormat.INT8, Numerics.AUTO, "--kv-dtype int8.*use --kv-dtype fp32"),
        (WeightFormat.AUTO, KVFormat.AUTO, Numerics.INVARIANT, "use --numerics fast"),
    ],
)
def test_what_torch_cannot_do_is_refused_with_what_to_do(
    weights: WeightFormat, kv_format: KVFormat, numerics: Numerics, advice: str
) -> None:
    with pytest.raises(ConfigurationError, match=advice):
        backend(BackendName.TORCH, weights, kv_format, numerics)


def test_torch_says_what_auto_became() -> None:
    traits = backend(BackendName.TORCH).traits
    assert (traits.name, traits.weights, traits.kv_dtype, traits.numerics) == (
        BackendName.TORCH,
        WeightFormat.FP32,
        KVDType.FP32,
        Numerics.FAST,
    )
    assert traits.isa


def test_pages_of_the_pool_become_resident_only_when_written() -> None:
    made = backend(BackendName.TORCH)
    table = matrix(made, np.zeros((2, 32), np.float32), embedding=True)
    group = KVGroup("full", tuple(range(32)), 8, 128, 16)
    before = _resident_bytes()
    (record,) = made.runner(LinearProbe(table, table), [group], 300, 16, 16).records
    assert record.nbytes > 1 << 30
    assert _resident_bytes() - before < 64 << 20


def _resident_bytes() -> int:
    with open("/proc/self/statm") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * 4096
