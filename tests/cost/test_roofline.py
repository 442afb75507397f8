"""Intensity, and step times against published ones."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netgain.cost.floors import step_floor
from netgain.cost.intensity import (
    critical_tokens,
    crossover_flop_per_byte,
    distinct_experts,
    expert_probabilities,
    matmul_intensity,
)
from netgain.cost.known_models import known_models, known_shape
from netgain.cost.layout import Layout
from netgain.cost.operations import Stored, step_operations
from netgain.cost.planner.setup import Setup
from netgain.cost.precision import kv_format, weight_format
from netgain.cost.roofline import Bound, RooflineModel
from netgain.cost.step_time import StepLoad
from netgain.cost.step_work import Slices, StepWork, decode, prefill, verify
from netgain.errors import ConfigurationError
from netgain.hardware.catalogue import shipped_catalogue
from netgain.hardware.topologies import for_device
from tests.cost.oracles import IDEAL, closed_loop_tpot_s

DEVICES = shipped_catalogue()


def on(model: str, device: str, weights: str = "bf16", tp: int = 1) -> RooflineModel:
    shape = known_shape(model)
    assert shape is not None
    stored = Stored(weight_format(weights), kv_format("bf16"), Layout(tp=tp))
    return RooflineModel(shape, DEVICES.device(device), stored)


@pytest.mark.parametrize(("size", "intensity"), [(64, 21.33), (512, 170.67), (4096, 1365.33)])
def test_intensity_of_a_square_product(size: int, intensity: float) -> None:
    assert matmul_intensity(size, size, size) == pytest.approx(intensity, abs=0.005)


@pytest.mark.parametrize(
    ("tokens", "intensity"), [(64, 62.06), (512, 409.60), (4096, 1365.33), (1, 1.0)]
)
def test_intensity_of_a_layer_of_4096(tokens: int, intensity: float) -> None:
    assert matmul_intensity(tokens, 4096, 4096) == pytest.approx(intensity, abs=0.005)


@pytest.mark.parametrize(
    ("device", "crossover"),
    [("L40S", 419), ("H100-SXM", 295), ("H200", 206), ("A100-80", 153), ("B200", 281),
     ("L4", 403), ("RTX-4090", 164), ("MI300X", 247)],
)  # fmt: skip
def test_crossovers(device: str, crossover: int) -> None:
    assert round(DEVICES.device(device).crossover_flop_per_byte) == crossover


@pytest.mark.parametrize(
    ("device", "weights", "tokens"),
    [("H100-SXM", "bf16", 295), ("H100-SXM", "fp8", 295), ("A100-80", "bf16", 153)],
)
def test_the_batch_at_which_weights_stop_ruling(device: str, weights: str, tokens: int) -> None:
    on_it, fmt = DEVICES.device(device), weight_format(weights)
    rate = on_it.rate(fmt.computes_in)[1].dense.value
    ridge = critical_tokens(rate, on_it.bandwidth_bytes_s.value, fmt.bytes)
    assert round(ridge) == tokens
    # Eight experts of 128: each token meets a sixteenth of them.
    sparse = critical_tokens(rate, on_it.bandwidth_bytes_s.value, fmt.bytes, 8 / 128)
    assert sparse == pytest.approx(16 * ridge)


def test_no_rate_makes_no_roof() -> None:
    with pytest.raises(ConfigurationError):
        crossover_flop_per_byte(1e12, 0.0)


@given(
    experts=st.integers(2, 512), tokens=st.integers(1, 2000), skew=st.sampled_from([0.0, 0.5, 1.2])
)
def test_distinct_experts_lie_between_those_of_one_token_and_all(
    experts: int, tokens: int, skew: float
) -> None:
    k = min(8, experts)
    found = distinct_experts(experts, k, tokens, skew)
    assert k - 1e-6 <= found <= experts + 1e-6
    assert found <= distinct_experts(experts, k, tokens + 1, skew) + 1e-9
    assert found <= distinct_experts(experts, k, tokens, 0.0) + 1e-6


def test_skewed_probabilities_sum_to_top_k() -> None:
    chances = expert_probabilities(128, 8, 1.2)
    assert sum(chances) == pytest.approx(8)
    assert max(chances) <= 1.0


def test_dense_arithmetic_is_twice_the_parameters_per_token() -> None:
    model = on("Llama-3.1-8B", "H100-SXM")
    work = StepWork((Slices(1, 1, 0, 1),))
    flops = sum(op.flops for op in step_operations(model.shape, model.stored, work))
    assert flops == pytest.approx(2 * model.shape.multiplied_parameters, rel=1e-3)


def test_causal_attention_of_a_prompt_is_half_a_square() -> None:
    model = on("Llama-3.1-8B", "H100-SXM")
    ops = {op.name: op for op in step_operations(model.shape, model.stored, prefill(8192))}
    per_pair = 4 * 32 * 32 * 128
    assert ops["attention"].flops == pytest.approx(per_pair * 8192**2 / 2, rel=1e-3)
    later = {op.name: op for op in step_operations(model.shape, model.stored, prefill(512, 4096))}
    assert later["attention"].flops == pytest.approx(
        4 * 32 * 32 * 128 * 512 * (4096 + 256), rel=1e-3
    )


def test_decode_reads_every_weight_but_the_embedding_once() -> None:
    model = on("Llama-3.1-8B", "H100-SXM")
    floor_s = RooflineModel(model.shape, model.device, model.stored, IDEAL).decode_s(1, 1)
    assert floor_s == pytest.approx(4.48e-3, rel=0.01)


def test_a_window_stops_what_attention_reads_and_computes() -> None:
    work = decode(1, 10_000)
    assert work.context_tokens(128) == 128
    assert work.pairs(128) == 128
    assert prefill(300).pairs(100) == 100 * 101 // 2 + 200 * 100


def test_a_step_is_the_sum_of_its_operations_not_the_longer_sum() -> None:
    step = on("Llama-3.1-8B", "H100-SXM").estimate(StepWork((Slices(8, 1, 30_000), Slices(1, 512))))
    sums = max(
        sum(op.compute_s for op in step.operations), sum(op.memory_s for op in step.operations)
    )
    assert step.seconds > sums


def test_what_bounds_each_phase_of_llama_8b_on_an_h100() -> None:
    model = on("Llama-3.1-8B", "H100-SXM")
    assert model.estimate(decode(1, 1024)).bound is Bound.MEMORY
    assert model.estimate(prefill(4096)).bound is Bound.COMPUTE


@given(
    model=st.sampled_from([known.name for known in known_models()]),
    batch=st.integers(1, 200),
    context=st.integers(1, 20_000),
)
def test_more_work_never_takes_less_time(model: str, batch: int, context: int) -> None:
    built = on(model, "H200-SXM", "fp8")
    here = built.decode_s(batch, context)
    assert built.decode_s(batch + 1, context) >= here
    assert built.decode_s(batch, context + 100) >= here
    assert built.seconds(verify(batch, context, 3)) >= here


WORK = st.builds(
    lambda sequences, new, cached: StepWork((Slices(sequences, new, cached),)),
    st.integers(1, 512), st.integers(1, 4096), st.integers(0, 100_000),
)  # fmt: skip


@given(
    model=st.sampled_from([known.name for known in known_models()]),
    weights=st.sampled_from(["bf16", "fp8", "int4", "mxfp4"]),
    device=st.sampled_from(["H100-SXM", "A100-80", "MI300X", "L4", "Groq-LPU", "B200"]),
    work=WORK,
)
def test_no_step_is_faster_than_reading_or_computing_allows(
    model: str, weights: str, device: str, work: StepWork
) -> None:
    built = on(model, device, weights)
    floor = step_floor(built.shape, built.device, built.stored, work)
    ideal = RooflineModel(built.shape, built.device, built.stored, IDEAL).seconds(work)
    assert built.seconds(work) >= ideal * (1 - 1e-9)
    # The floor may use a faster unit and an on-chip cache; never may the model be faster than it.
    assert ideal >= floor.compute_s * (1 - 1e-9)
    assert ideal >= floor.memory_s * (1 - 1e-9)


@given(
    model=st.sampled_from([known.name for known in known_models()]),
    tp=st.sampled_from([2, 3, 4, 8]),
    work=WORK,
)
def test_tensor_ranks_never_gain_more_than_their_number(
    model: str, tp: int, work: StepWork
) -> None:
    shape = known_shape(model)
    assert shape is not None
    if tp > shape.heads:
        return
    stored = Stored(weight_format("bf16"), kv_format("bf16"))
    device = DEVICES.device("H100-SXM")
    alone = RooflineModel(shape, device, stored, IDEAL).seconds(work)
    shared = RooflineModel(shape, device, replace(stored, layout=Layout(tp=tp)), IDEAL)
    assert shared.seconds(work) >= alone / tp * (1 - 1e-6)


def test_a_load_of_equal_slices_takes_what_its_slices_take() -> None:
    model = on("Llama-3.1-8B", "H100-SXM")
    load = StepLoad.of([(1000, 1)] * 8)
    assert model.step_s(load) == pytest.approx(model.decode_s(8, 1000))
    assert model.step_s(StepLoad()) == 0.0


# ---- published rows (tolerance 15 %) --------------------------------------------------------


@pytest.mark.parametrize(
    ("clients", "tpot_ms"), [(8, 7.42), (16, 8.35), (32, 9.88), (64, 13.1), (128, 19.26)]
)
def test_llama_8b_on_an_h100(clients: int, tpot_ms: float) -> None:
    model = on("Llama-3.1-8B", "H100-SXM")
    assert closed_loop_tpot_s(model, clients, 1024, 512) == pytest.approx(tpot_ms / 1e3, rel=0.15)


@pytest.mark.parametrize(("clients", "tpot_ms"), [(4, 21.47), (16, 24.72), (64, 37.44)])
def test_llama_70b_in_fp8_on_an_h200(clients: int, tpot_ms: float) -> None:
    model = on("Llama-3.1-70B", "H200-SXM", "fp8")
    assert closed_loop_tpot_s(model, clients, 1024, 1024) == pytest.approx(tpot_ms / 1e3, rel=0.15)


@pytest.mark.parametrize(
    ("device", "tp", "clients", "tpot_ms"),
    [
        ("H200", 4, 4, 9.85),
        ("H200", 4, 16, 10.94),
        ("H200", 4, 64, 16.07),
        ("H100-SXM", 2, 4, 17.41),
        ("H100-SXM", 2, 64, 28.77),
        ("H100-SXM", 4, 8, 12.11),
        ("H100-SXM", 8, 4, 9.11),
    ],
)
def test_llama_70b_in_fp8_over_tensor_ranks(
    device: str, tp: int, clients: int, tpot_ms: float
) -> None:
    """R28, R32: collectives and launches included; 8 ranks are the least well met (-16 %)."""
    model = on("Llama-3.1-70B", device, "fp8")
    joined = for_device(DEVICES, model.device, tp)
    steps = Setup(
        model.shape, model.device, model.stored.weights, model.stored.kv, Layout(tp=tp), joined
    ).steps()
    found = closed_loop_tpot_s(steps, clients, 1024, 1024)
    assert found == pytest.approx(tpot_ms / 1e3, rel=0.18)


@pytest.mark.parametrize(("clients", "tpot_ms"), [(16, 24.72), (64, 37.44)])
def test_calibrated_on_one_row_the_others_follow(clients: int, tpot_ms: float) -> None:
    model = on("Llama-3.1-70B", "H200-SXM", "fp8")
    first_s = 21.47e-3 - model.prefill_s(1024) * 4 / 1024
    fitted = model.calibrated(decode(4, 1536), first_s)
    assert closed_loop_tpot_s(fitted, 4, 1024, 1024) == pytest.approx(21.47e-3, rel=1e-3)
    assert closed_loop_tpot_s(fitted, clients, 1024, 1024) == pytest.approx(tpot_ms / 1e3, rel=0.1)


def test_context_slows_decode_by_the_bytes_it_adds() -> None:
    """H100, Llama-3.1-8B: 4.37e-5 ms per token of context at 3.0 TB/s."""
    model = on("Llama-3.1-8B", "H100-SXM")
    slope_ms = (model.decode_s(1, 100_000) - model.decode_s(1, 0)) / 1e5 * 1e3
    assert slope_ms * model.efficiency.memory * 3.35 / 3.0 == pytest.approx(4.37e-5, rel=0.02)


@pytest.mark.parametrize(
    ("model", "tp", "itl_ms"),
    [("Llama-3.1-70B", 4, 18.3), ("Mistral-Nemo", 2, 6.1), ("Qwen2.5-7B", 1, 7.0),
     ("Yi-34B", 2, 15.6)],
)  # fmt: skip
def test_floors_lie_below_what_was_measured(model: str, tp: int, itl_ms: float) -> None:
    built = on(model, "H100-SXM", tp=tp)
    floor = RooflineModel(built.shape, built.device, built.stored, IDEAL).decode_s(1, 1)
    assert 0.5 * itl_ms / 1e3 < floor < itl_ms / 1e3


def test_a_time_below_the_floor_cannot_be_calibrated_to() -> None:
    with pytest.raises(ConfigurationError, match="cannot be explained"):
        on("Llama-3.1-8B", "H100-SXM").calibrated(decode(1, 1), 1e-3)
