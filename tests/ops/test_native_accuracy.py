"""What formats of weights and of keys and values may cost; `benchmarks.accuracy` measures more."""

from pathlib import Path

import pytest
from benchmarks.accuracy import WINDOW, Result, prose, results

from netgain.kv.geometry import KVDType
from netgain.models.checkpoint import open_checkpoint
from netgain.ops.choices import WeightFormat
from netgain.ops.selection import native_is_there

pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(not native_is_there(), reason="the native library is not built"),
]


@pytest.fixture(scope="module")
def measured(default_gguf: Path) -> dict[tuple[WeightFormat, KVDType], Result]:
    checkpoint = open_checkpoint(default_gguf)
    combinations = [
        (WeightFormat.FP32, [KVDType.FP32]),
        (WeightFormat.AS_STORED, [KVDType.FP32, KVDType.FP16, KVDType.INT8]),
    ]
    found = results(checkpoint, prose(checkpoint, WINDOW), combinations)
    return {(result.weights, result.kv): result for result in found}


@pytest.mark.parametrize(
    ("kv", "most_change", "least_agreement"),
    [(KVDType.FP32, 0.005, 0.98), (KVDType.FP16, 0.005, 0.98), (KVDType.INT8, 0.01, 0.97)],
)
def test_stored_weights_with_quantised_activations_predict_as_in_float32(
    measured: dict[tuple[WeightFormat, KVDType], Result],
    kv: KVDType,
    most_change: float,
    least_agreement: float,
) -> None:
    reference = measured[WeightFormat.FP32, KVDType.FP32].score
    score = measured[WeightFormat.AS_STORED, kv].score
    assert abs(score.perplexity_ratio(reference) - 1) <= most_change
    assert score.agreement(reference) >= least_agreement


def test_the_default_model_predicts_prose(
    measured: dict[tuple[WeightFormat, KVDType], Result],
) -> None:
    # Two formats that are wrong in the same way would agree with each other.
    assert measured[WeightFormat.FP32, KVDType.FP32].score.perplexity < 20


def test_formats_take_the_memory_that_they_say(
    measured: dict[tuple[WeightFormat, KVDType], Result],
) -> None:
    fp32, stored = (
        measured[WeightFormat.FP32, KVDType.FP32],
        measured[WeightFormat.AS_STORED, KVDType.INT8],
    )
    assert stored.weight_bytes < 0.2 * fp32.weight_bytes
    assert stored.kv_token_bytes < 0.27 * fp32.kv_token_bytes
