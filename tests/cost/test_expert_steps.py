"""Steps of models with experts against published ones, and against measured kernels.

Rows and kernel times: aiconfigurator @ 095f58a5 (systems/silicon_sample.csv, R34 and R35;
systems/data/h200_sxm/moe/vllm/0.18.0), clients in a closed loop.
"""

from dataclasses import replace

import pytest

from netgain.cost.known_models import known_shape
from netgain.cost.layout import Layout
from netgain.cost.operations import step_operations
from netgain.cost.planner.setup import Setup
from netgain.cost.precision import kv_format, weight_format
from netgain.cost.roofline import Bound, RooflineModel
from netgain.cost.step_work import decode, prefill
from netgain.hardware.catalogue import shipped_catalogue
from netgain.hardware.topologies import for_device
from tests.cost.oracles import IDEAL, closed_loop_tpot_s

DEVICES = shipped_catalogue()


def steps(
    model: str, device: str, weights: str, tp: int = 1, ep: int = 1, dp: int = 1
) -> RooflineModel:
    shape = known_shape(model)
    assert shape is not None
    found = DEVICES.device(device)
    return Setup(
        shape,
        found,
        weight_format(weights),
        kv_format("bf16"),
        Layout(tp=tp, ep=ep, dp=dp),
        for_device(DEVICES, found, tp * dp) if tp * dp > 1 else None,
    ).steps()


# (model, device, weights, tp, ep, prompt, answer, clients, TPOT ms)
PUBLISHED = [
    ("gpt-oss-120b", "H200", "mxfp4", 1, 1, 1024, 1024, 4, 6.33),
    ("gpt-oss-120b", "H200", "mxfp4", 2, 1, 1024, 1024, 64, 14.42),
    ("gpt-oss-120b", "H200", "mxfp4", 4, 1, 1024, 1024, 32, 7.16),
    ("gpt-oss-120b", "H200", "mxfp4", 8, 1, 1024, 1024, 8, 3.97),
    ("gpt-oss-120b", "H200", "mxfp4", 1, 1, 8192, 1024, 32, 24.8),
    ("DeepSeek-V3", "H200", "fp8", 8, 1, 1024, 1024, 4, 10.29),
    ("DeepSeek-V3", "H200", "fp8", 8, 1, 1024, 1024, 16, 16.63),
    ("DeepSeek-V3", "H200", "fp8", 8, 1, 1024, 1024, 64, 32.99),
    ("DeepSeek-V3", "H200", "fp8", 8, 1, 8192, 1024, 16, 20.41),
]
# What no constant was chosen by: other devices, engines (TensorRT-LLM, vLLM) and layouts.
HELD_OUT = [
    ("gpt-oss-120b", "B200", "mxfp4", 1, 1, 1024, 1024, 4, 3.71),
    ("gpt-oss-120b", "B200", "mxfp4", 1, 1, 1024, 1024, 32, 8.26),
    ("gpt-oss-120b", "B200", "mxfp4", 1, 1, 1024, 1024, 128, 12.75),
    ("gpt-oss-120b", "B200", "mxfp4", 2, 1, 1024, 1024, 32, 5.25),
    ("gpt-oss-120b", "B200", "mxfp4", 8, 1, 1024, 1024, 4, 2.29),
    ("gpt-oss-120b", "B200", "mxfp4", 8, 1, 1024, 1024, 64, 5.04),
    ("Qwen3-235B-A22B", "H100", "fp8-block", 4, 4, 1024, 512, 4, 13.39),
    ("Qwen3-235B-A22B", "H100", "fp8-block", 4, 4, 1024, 512, 32, 24.07),
    ("Qwen3-235B-A22B", "H100", "fp8-block", 8, 8, 1024, 512, 32, 19.66),
    ("Qwen3-235B-A22B", "H100", "fp8-block", 8, 8, 1024, 512, 128, 36.41),
    ("DeepSeek-V3", "H200", "fp8", 8, 8, 1024, 1024, 4, 13.82),
    ("DeepSeek-V3", "H200", "fp8", 8, 8, 1024, 1024, 64, 33.11),
]
Row = tuple[str, str, str, int, int, int, int, int, float]


@pytest.mark.parametrize("row", PUBLISHED, ids=str)
def test_published_steps_with_experts_are_met_within_a_fifth(row: Row) -> None:
    model, device, weights, tp, ep, prompt, answer, clients, tpot_ms = row
    found = closed_loop_tpot_s(steps(model, device, weights, tp, ep), clients, prompt, answer)
    assert found == pytest.approx(tpot_ms / 1e3, rel=0.2)


@pytest.mark.parametrize("row", HELD_OUT, ids=str)
def test_rows_that_chose_nothing_are_met_within_35_percent(row: Row) -> None:
    model, device, weights, tp, ep, prompt, answer, clients, tpot_ms = row
    found = closed_loop_tpot_s(steps(model, device, weights, tp, ep), clients, prompt, answer)
    assert found == pytest.approx(tpot_ms / 1e3, rel=0.35)


@pytest.mark.parametrize(
    ("clients", "one_ms", "other_ms"), [(4, 8.58, 13.82), (16, 14.19, 20.19), (64, 23.42, 33.11)]
)
def test_an_estimate_lies_between_two_records_of_one_layout(
    clients: int, one_ms: float, other_ms: float
) -> None:
    """R35: DeepSeek-R1 on 8 H200, TensorRT-LLM 1.1.0rc2, EP 8, recorded twice."""
    built = steps("DeepSeek-V3", "H200", "fp8", 8, 8)
    assert one_ms / 1e3 < closed_loop_tpot_s(built, clients, 1024, 1024) < other_ms / 1e3


@pytest.mark.parametrize(
    ("batch", "context", "tokens_per_s_and_node"), [(256, 2100, 22_282), (128, 4100, 17_373)]
)
def test_experts_over_9_machines_take_what_a_published_decode_took(
    batch: int, context: int, tokens_per_s_and_node: int
) -> None:
    """R21: DeepSeek-V3, 72 H100, EP 72, batch per device; nothing was fitted to it."""
    built = steps("DeepSeek-V3", "H100-SXM", "fp8", ep=72, dp=72)
    step = built.estimate(decode(batch, context))
    assert step.seconds == pytest.approx(8 * batch / tokens_per_s_and_node, rel=0.15)
    assert step.bound is Bound.COMMUNICATION
    if batch == 128:
        # 0.17 ms a layer of dispatch, where a unit test of the kernel took 0.06.
        assert step.communication_s / 58 / 3 == pytest.approx(0.17e-3, rel=0.1)


@pytest.mark.parametrize(
    ("prompt", "tokens_per_s_and_node"), [(1024, 57_674), (2048, 54_543), (4096, 50_302)]
)
def test_experts_over_4_machines_prefill_what_was_published(
    prompt: int, tokens_per_s_and_node: int
) -> None:
    """R21: DeepSeek-V3, 32 H100, EP 32, 16,384 tokens a device; they overlapped two batches."""
    built = steps("DeepSeek-V3", "H100-SXM", "fp8", ep=32, dp=32)
    seconds = built.seconds(prefill(prompt, 0, 16_384 // prompt))
    assert 8 * 16_384 / seconds == pytest.approx(tokens_per_s_and_node, rel=0.15)


@pytest.mark.parametrize("row", PUBLISHED + HELD_OUT, ids=str)
def test_the_range_holds_published_rows_to_a_fifth(row: Row) -> None:
    model, device, weights, tp, ep, prompt, answer, clients, tpot_ms = row
    built = steps(model, device, weights, tp, ep)
    shared = built.prefill_s(prompt) * clients / answer
    low, high = built.expert_range_s(decode(clients, prompt + answer // 2))
    assert 0.8 * (low + shared) <= tpot_ms / 1e3 <= 1.2 * (high + shared)


@pytest.mark.parametrize(
    ("model", "weights", "tp", "tokens", "measured_us"),
    [
        ("gpt-oss-120b", "mxfp4", 1, 8, 228.8),
        ("gpt-oss-120b", "mxfp4", 1, 32, 418.8),
        ("gpt-oss-120b", "mxfp4", 1, 128, 650.2),
        ("DeepSeek-V3", "fp8-block", 8, 4, 79.6),
        ("DeepSeek-V3", "fp8-block", 8, 32, 254.8),
        ("DeepSeek-V3", "fp8-block", 8, 128, 356.7),
        ("Qwen3-30B-A3B", "bf16", 1, 1, 34.0),
        ("Qwen3-30B-A3B", "bf16", 1, 32, 258.5),
        ("Qwen3-30B-A3B", "bf16", 1, 256, 353.2),
        ("Qwen3-30B-A3B", "bf16", 1, 4096, 878.4),
        ("Qwen3-235B-A22B", "fp8", 4, 8, 86.0),
        ("Qwen3-235B-A22B", "fp8", 4, 64, 180.9),
        ("Mixtral-8x7B", "bf16", 1, 1, 187.5),
        ("Mixtral-8x7B", "bf16", 1, 64, 738.9),
        ("Mixtral-8x7B", "bf16", 1, 4096, 5156.4),
    ],
)
def test_one_layer_s_expert_block_takes_what_its_kernels_took(
    model: str, weights: str, tp: int, tokens: int, measured_us: float
) -> None:
    """vLLM 0.18 on an H200, loads drawn from a power law of 1.01."""
    built = steps(model, "H200", weights, tp)
    layers = sum(1 if g.mlp == built.shape.experts else 0 for g in built.shape.groups)
    assert layers
    count = sum(g.count for g in built.shape.groups if g.mlp == built.shape.experts)
    step = built.estimate(decode(tokens, 1))
    block = [op for op in step.operations if op.operation.grouped]
    seconds = sum(op.seconds for op in block) + built.efficiency.launch_s * sum(
        op.launches for op in block
    )
    assert seconds / count * 1e6 == pytest.approx(measured_us, rel=0.3)


def test_a_device_that_multiplies_4_bits_does_not_unpack_them() -> None:
    hopper, blackwell = (
        steps("gpt-oss-120b", "H200", "mxfp4"),
        steps("gpt-oss-120b", "B200", "mxfp4"),
    )

    def experts(model: RooflineModel) -> float:
        found = next(
            op for op in model.estimate(decode(8, 1)).operations if op.operation.name == "experts"
        )
        return found.operation.bytes / found.memory_s / model.device.bandwidth_bytes_s.value

    assert experts(hopper) == pytest.approx(0.8 * 0.62)
    assert experts(blackwell) == pytest.approx(0.8)


def test_the_ideal_peaks_know_no_padding_no_launches_and_no_unpacking() -> None:
    built = steps("gpt-oss-120b", "H200", "mxfp4")
    ideal = replace(built, efficiency=IDEAL)
    step = ideal.estimate(prefill(4096))
    experts = next(op for op in step.operations if op.operation.name == "experts")
    rate = ideal.rate_flop_s(experts.operation.precision)
    assert experts.compute_s == pytest.approx(experts.operation.flops / rate)
    assert step.overhead_s == 0.0


def test_padding_is_not_counted_as_arithmetic() -> None:
    built = steps("gpt-oss-120b", "H200", "mxfp4")
    work = decode(1, 1)
    flops = sum(op.flops for op in step_operations(built.shape, built.stored, work))
    assert flops == pytest.approx(2 * 5.1e9, rel=0.15)  # 5.1e9 active parameters


def test_without_experts_there_is_no_range() -> None:
    built = steps("Llama-3.1-8B", "H100-SXM", "bf16")
    low, high = built.expert_range_s(decode(8, 1024))
    assert low == high == built.decode_s(8, 1024)


def test_a_range_holds_its_own_estimate() -> None:
    built = steps("DeepSeek-V3", "H200", "fp8", 8, 8)
    for batch in (1, 16, 256):
        low, high = built.expert_range_s(decode(batch, 2048))
        assert low <= built.decode_s(batch, 2048) < high
