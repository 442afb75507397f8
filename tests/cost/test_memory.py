"""Bytes of weights, keys and values, and what fits."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netgain.cost.known_models import known_models, known_shape
from netgain.cost.kv_bytes import (
    kv_bytes_per_sequence,
    kv_bytes_per_token,
    kv_bytes_per_token_on_rank,
    kv_bytes_per_token_stored,
    kv_marginal_bytes_per_token,
)
from netgain.cost.layout import ONE_DEVICE, Layout
from netgain.cost.loading import LOAD_RANGES
from netgain.cost.memory import (
    Knob,
    MemoryQuestion,
    Serving,
    activation_bytes,
    chips_for_one_model,
    largest_model_len,
    plan_memory,
)
from netgain.cost.model_shape import ModelShape, Part
from netgain.cost.precision import kv_format, weight_format
from netgain.cost.ways_out import fewest_devices, ways_out
from netgain.cost.weights import (
    rank_weight_bytes,
    rank_weight_bytes_by_part,
    rule_of_thumb_bytes,
    weight_bytes,
)
from netgain.errors import ConfigurationError
from netgain.hardware.catalogue import shipped_catalogue

GIB = 1 << 30
DEVICES = shipped_catalogue()


def shape(name: str) -> ModelShape:
    found = known_shape(name)
    assert found is not None
    return found


def ask(model: str, device: str, weights: str = "bf16", **changes: object) -> MemoryQuestion:
    question = MemoryQuestion(
        shape(model), DEVICES.device(device), weight_format(weights), kv_format("bf16"), 16, 4096
    )
    return replace(question, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("model", "size"),
    [
        ("Llama-2-7B", 524_288),
        ("Llama-3-8B", 131_072),
        ("Llama-3.1-8B", 131_072),
        ("Llama-2-70B", 327_680),
        ("Llama-3-70B", 327_680),
        ("Qwen3-8B", 147_456),
        ("Qwen3-32B", 262_144),
        ("Qwen3-30B-A3B", 98_304),
        ("Qwen3-235B-A22B", 192_512),
        ("DeepSeek-V3", 70_272),
        ("OPT-66B", 2_359_296),
        ("BLOOM-176B", 4_014_080),
        ("gpt-oss-20b", 49_152),
    ],
)
def test_published_kv_bytes_per_token(model: str, size: int) -> None:
    assert kv_bytes_per_token(shape(model)) == size


def test_past_its_windows_gpt_oss_20b_adds_half_as_much() -> None:
    assert kv_marginal_bytes_per_token(shape("gpt-oss-20b")) == 24_576


def test_qwen3_235b_over_eight_ranks_stores_its_four_heads_twice() -> None:
    assert kv_bytes_per_token_stored(shape("Qwen3-235B-A22B"), Layout(tp=8)) == 385_024


def test_a_latent_cache_is_copied_on_every_rank() -> None:
    deepseek = shape("DeepSeek-V3")
    assert kv_bytes_per_token_on_rank(deepseek, Layout(tp=8)) == 70_272
    assert kv_bytes_per_token_stored(deepseek, Layout(tp=8)) == 8 * 70_272


@pytest.mark.parametrize(
    ("model", "layout", "rank", "stored"),
    [
        ("Llama-3-70B", Layout(tp=8), 80 * 2 * 1 * 128 * 2, 327_680),
        ("Llama-3-70B", Layout(tp=8, pp=2), 40 * 2 * 1 * 128 * 2, 327_680),
        ("Llama-3-70B", Layout(tp=16), 80 * 2 * 1 * 128 * 2, 655_360),
        ("Llama-3-70B", Layout(pp=3), 27 * 2 * 8 * 128 * 2, 327_680),
        ("Llama-2-7B", Layout(tp=3), 32 * 2 * 11 * 128 * 2, 524_288),
        ("Qwen3-235B-A22B", Layout(tp=8, ep=8), 94 * 2 * 1 * 128 * 2, 385_024),
        ("DeepSeek-V3", Layout(dp=8, ep=8), 70_272, 70_272),
        ("gpt-oss-20b", Layout(tp=8), 24 * 2 * 1 * 64 * 2, 49_152),
        ("Gemma-3-1B", Layout(tp=4), 26 * 2 * 1 * 256 * 2, 4 * 26_624),
    ],
)
def test_what_a_rank_and_a_replica_store_of_a_token(
    model: str, layout: Layout, rank: int, stored: int
) -> None:
    found = shape(model)
    layout.check(found)
    assert kv_bytes_per_token_on_rank(found, layout) == rank
    assert kv_bytes_per_token_stored(found, layout) == stored


def test_gemma_3_27b_keeps_52_windows_of_1024_and_10_whole_contexts() -> None:
    gemma = shape("Gemma-3-27B")
    layer = 2 * 16 * 128 * 2
    assert kv_bytes_per_token(gemma) == 62 * layer == 507_904
    assert kv_marginal_bytes_per_token(gemma) == 10 * layer == 81_920
    assert kv_bytes_per_sequence(gemma, 32_768) == (52 * 1024 + 10 * 32_768) * layer
    assert kv_bytes_per_sequence(gemma, 512) == 512 * 62 * layer


@given(
    model=st.sampled_from([known.name for known in known_models()]),
    device=st.sampled_from(["H100-SXM", "L40S", "MI300X", "B200-SXM"]),
    tokens=st.integers(1, 30_000),
)
def test_as_many_sequences_as_are_said_to_fit_do_and_one_more_does_not(
    model: str, device: str, tokens: int
) -> None:
    weights = "int4" if shape(model).parameters > 5e10 else "fp8"
    question = ask(model, device, weights, sequences=1, tokens=tokens)
    most = plan_memory(question).capacity_sequences
    if most:
        assert plan_memory(replace(question, sequences=most)).fits
    assert not plan_memory(replace(question, sequences=most + 1)).fits


def test_a_block_of_16_tokens_of_llama_8b_is_two_mebibytes() -> None:
    llama = shape("Llama-3.1-8B")
    assert 16 * kv_bytes_per_token(llama) == 2 << 20
    assert 16 * kv_bytes_per_token(llama) // llama.layers // 2 == 32 << 10


@pytest.mark.parametrize(
    ("batch", "length", "gib"), [(1, 4096, 2), (4, 4096, 8), (16, 4096, 32), (16, 8192, 64)]
)
def test_the_cache_of_llama_2_7b(batch: int, length: int, gib: int) -> None:
    assert batch * kv_bytes_per_sequence(shape("Llama-2-7B"), length) == gib * GIB


def test_a_linear_attention_layer_keeps_a_32_bit_state_and_a_short_convolution() -> None:
    hybrid = shape("Qwen3-Next-80B-A3B")
    state = 36 * (32 * 128 * 128 * 4 + (2 * 16 * 128 + 32 * 128) * 3 * 2)
    one, two = kv_bytes_per_sequence(hybrid, 1), kv_bytes_per_sequence(hybrid, 2)
    assert two - one == kv_bytes_per_token(hybrid) == 2 * 12 * 2 * 256 * 2
    assert one == state + kv_bytes_per_token(hybrid)


def test_lengths_are_rounded_up_to_blocks() -> None:
    llama = shape("Llama-2-7B")
    assert kv_bytes_per_sequence(llama, 17, block_tokens=16) == 32 * 524_288


def test_published_transfers_have_the_bytes_they_say() -> None:
    assert 131_072 * kv_bytes_per_token(shape("Llama-3-70B")) == 40 * GIB
    assert 32_768 * kv_bytes_per_token(shape("Qwen3-8B")) == 4.5 * GIB
    assert 512 * kv_bytes_per_token(shape("OPT-66B")) == 1.125 * GIB


@pytest.mark.parametrize(
    ("parameters", "weights", "size"),
    [(7e9, "bf16", 14e9), (7e9, "int8", 7e9), (70e9, "bf16", 140e9), (7e9, "fp32", 28e9)],
)
def test_the_rule_of_thumb(parameters: float, weights: str, size: float) -> None:
    assert rule_of_thumb_bytes(parameters, weight_format(weights)) == size


@pytest.mark.parametrize(
    ("model", "weights", "size"),
    [
        ("Llama-3.1-8B", "bf16", 16.06e9),
        ("Llama-3.1-70B", "fp8", 70.6e9),
        ("gpt-oss-120b", "mxfp4", 60.8 * GIB),
        ("gpt-oss-20b", "mxfp4", 12.8 * GIB),
        ("DeepSeek-V3", "fp8", 671e9),
    ],
)
def test_published_weights(model: str, weights: str, size: float) -> None:
    assert weight_bytes(shape(model), weight_format(weights)) == pytest.approx(size, rel=0.05)


@pytest.mark.parametrize("model", [known.name for known in known_models()])
def test_one_rank_of_one_holds_the_whole_model(model: str) -> None:
    found = shape(model)
    for weights in ("bf16", "fp8", "int4", "q4_0"):
        fmt = weight_format(weights)
        assert rank_weight_bytes(found, fmt, ONE_DEVICE) == weight_bytes(found, fmt)


def test_a_rank_s_weights_of_llama_3_70b_over_eight() -> None:
    attention = 8192 * (8 + 1 + 1) * 128 + 8 * 128 * 8192
    mlp = 3 * 8192 * 28_672 // 8
    table = 128_256 // 8 * 8192
    rank = 80 * (attention + mlp + 2 * 8192) + 2 * table + 8192
    llama, bf16 = shape("Llama-3-70B"), weight_format("bf16")
    assert rank_weight_bytes(llama, bf16, Layout(tp=8)) == 2 * rank == 17_640_734_720
    # Two stages: half the layers, and a table each, of which both are equally large.
    staged = 40 * (attention + mlp + 2 * 8192) + table + 8192
    assert rank_weight_bytes(llama, bf16, Layout(tp=8, pp=2)) == 2 * staged


def test_a_rank_s_experts_of_deepseek_v3_over_32() -> None:
    found = rank_weight_bytes_by_part(
        shape("DeepSeek-V3"), weight_format("bf16"), Layout(dp=32, ep=32)
    )
    assert found[Part.EXPERTS] == 2 * 58 * 8 * 3 * 7168 * 2048
    assert found[Part.SHARED] == 2 * 58 * 3 * 7168 * 2048  # one copy on each


def test_the_activations_of_a_step_of_llama_8b() -> None:
    """8192 tokens x (residual, norm, and gate, up, their product), two rows of logits each."""
    tokens = 8192 * (2 * 4096 + 3 * 14_336) * 2
    logits = 2 * 256 * 128_256 * 4
    assert activation_bytes(shape("Llama-3.1-8B"), ONE_DEVICE, 8192, 256) == tokens + logits
    assert tokens + logits == 1_101_529_088


@given(
    model=st.sampled_from([known.name for known in known_models()]),
    tp=st.sampled_from([2, 3, 4, 8]),
    pp=st.sampled_from([1, 2, 4]),
)
def test_ranks_together_hold_at_least_the_model_and_one_holds_less(
    model: str, tp: int, pp: int
) -> None:
    found, weights, layout = shape(model), weight_format("bf16"), Layout(tp=tp, pp=pp)
    if tp > found.heads:
        return
    rank = rank_weight_bytes(found, weights, layout)
    whole = weight_bytes(found, weights)
    assert whole <= rank * layout.devices * 1.001
    assert rank < whole


@given(
    tokens=st.integers(1, 60_000),
    more=st.integers(0, 10_000),
    model=st.sampled_from([known.name for known in known_models()]),
)
def test_a_longer_sequence_never_takes_less(tokens: int, more: int, model: str) -> None:
    found = shape(model)
    assert kv_bytes_per_sequence(found, tokens + more) >= kv_bytes_per_sequence(found, tokens)


@given(
    share=st.floats(0.5, 0.95),
    batch=st.integers(1, 64),
    device=st.sampled_from(["H100-SXM", "L40S", "MI300X", "TPU-v6e"]),
)
def test_more_memory_never_holds_fewer_tokens(share: float, batch: int, device: str) -> None:
    question = ask("Llama-3.1-8B", device, sequences=batch, serving=Serving(utilisation=share))
    more = replace(question, serving=Serving(utilisation=min(1.0, share + 0.05)))
    assert plan_memory(more).capacity_tokens >= plan_memory(question).capacity_tokens


def test_capacity_is_room_over_bytes_per_token() -> None:
    plan = plan_memory(ask("Llama-2-7B", "H100-SXM"))
    room = plan.budget_bytes - plan.weights_bytes - plan.activation_bytes - plan.reserve_bytes
    assert plan.kv_room_bytes == room
    assert plan.capacity_tokens == room // 524_288 // 16 * 16
    assert plan.fits
    assert plan.binding is Knob.UTILISATION


def test_the_smallest_of_the_four_knobs_binds() -> None:
    few = ask("Llama-2-7B", "H100-SXM", serving=Serving(max_num_seqs=4))
    assert (plan_memory(few).binding, plan_memory(few).runs) == (Knob.MAX_NUM_SEQS, 4)
    small = ask("Llama-2-7B", "H100-SXM", serving=Serving(max_batched_tokens=3))
    assert plan_memory(small).binding is Knob.MAX_BATCHED_TOKENS
    short = ask("Llama-2-7B", "H100-SXM", serving=Serving(max_model_len=1024))
    assert (plan_memory(short).binding, plan_memory(short).runs) == (Knob.MAX_MODEL_LEN, 0)


@pytest.mark.parametrize(
    ("model", "device", "weights"),
    [
        ("Llama-2-7B", "L40S", "bf16"),
        ("Llama-3-70B", "H100-SXM", "bf16"),
        ("DeepSeek-V3", "L4", "fp8"),
        ("Llama-2-13B", "RTX-4090", "bf16"),
        ("Qwen3-235B-A22B", "MI300X", "fp8"),
    ],
)
def test_three_ways_out_and_each_of_them_fits(model: str, device: str, weights: str) -> None:
    question = ask(model, device, weights)
    assert not plan_memory(question).fits
    outs = ways_out(question, DEVICES.devices)
    assert len(outs) == 3
    for out in outs:
        again = plan_memory(out.question)
        assert again.fits
        assert again.shortfall_bytes == 0


def test_ways_out_differ_in_kind_and_the_cheapest_of_each_comes_first() -> None:
    # 4096, 2048 and 1024 tokens a step would each do: one of them is said.
    small, large = (Serving(max_batched_tokens=n, utilisation=0.95) for n in (4096, 32768))
    most = plan_memory(ask("Llama-3.1-8B", "L40S", serving=small)).capacity_sequences
    question = ask("Llama-3.1-8B", "L40S", sequences=most, serving=large)
    changes = [out.change for out in ways_out(question, DEVICES.devices)]
    assert len([change for change in changes if "smaller steps" in change]) == 1
    # Where narrower weights alone do, narrower weights and keys are not a third way.
    hybrid = ask("Qwen3-Next-80B-A3B", "H200-SXM")
    flags = [out.change for out in ways_out(hybrid, DEVICES.devices)]
    assert "--weights fp8)" in flags[0]
    assert not any("--weights" in flag for flag in flags[1:])


def test_no_more_sequences_run_than_are_wanted() -> None:
    three = ask("Llama-2-7B", "H100-SXM", sequences=3, layout=Layout(dp=2))
    assert plan_memory(three).runs == 3


def test_one_device_less_than_the_fewest_does_not_hold_it() -> None:
    question = ask("Llama-3-70B", "H100-SXM")
    layout = fewest_devices(question)
    assert layout == Layout(pp=3)
    assert not plan_memory(replace(question, layout=Layout(tp=2))).fits


def test_the_longest_length_fits_and_a_block_more_does_not() -> None:
    question = ask("Llama-3.1-8B", "L4")
    longest = largest_model_len(question)
    one = replace(question, sequences=1)
    assert plan_memory(replace(one, tokens=longest)).fits
    assert not plan_memory(replace(one, tokens=longest + 16)).fits


def test_an_sram_machine_needs_many_chips() -> None:
    question = ask("Llama-2-70B", "Groq-LPU", "int8", sequences=1)
    assert chips_for_one_model(question) == pytest.approx(310, rel=0.03)


@pytest.mark.parametrize(
    "layout", [Layout(tp=64), Layout(pp=33), Layout(tp=2, ep=2)], ids=["tp", "pp", "ep"]
)
def test_a_layout_the_model_cannot_have_is_refused(layout: Layout) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot be laid out|has no experts"):
        ask("Llama-2-7B", "H100-SXM", layout=layout)


@pytest.mark.parametrize(("sequences", "tokens"), [(0, 1), (-1, 1), (1, 0)])
def test_empty_traffic_is_refused(sequences: int, tokens: int) -> None:
    with pytest.raises(ConfigurationError):
        ask("Llama-2-7B", "H100-SXM", sequences=sequences, tokens=tokens)


def test_a_disk_loads_14_gb_in_1_to_28_seconds() -> None:
    assert LOAD_RANGES[0].seconds(14e9) == (1.0, 28.0)
