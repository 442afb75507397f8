"""Published numbers: impossible ones are rejected, real ones are not."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netgain.cost.claim import Claim, Verdict, check_claim
from netgain.cost.claim_text import read_claim
from netgain.cost.planner.check_plan import plan_check
from netgain.errors import ConfigurationError
from netgain.hardware.catalogue import shipped_catalogue

KNOWN = shipped_catalogue()


def verdict(text: str) -> Verdict:
    return check_claim(read_claim(text, KNOWN)).verdict


@pytest.mark.parametrize(
    "claim",
    [
        "Llama-3.3-70B FP8 on one H200, batch 1-4, 1,700 tok/s",
        "Llama-3.3-70B FP8 on 1x H200 batch 1–4 with EAGLE-3, accept length 6.2: 6,200 tok/s",  # noqa: RUF001
        # The row as it was printed: both of its rates are too high.
        'Llama-3.3-70B FP8 on one H200, "batch 1-4", 1,700 tok/s base, 6,200 with EAGLE-3',
        "Llama-3.3-70B FP8 on one H200, batch 4, 1,700 tok/s base, 1,900 tok/s with EAGLE-3",
        "Llama-3.3-70B FP8 on one H200, batch 4, 200 tok/s base, 6,200 with EAGLE-3",
        "Llama-3.1-8B bf16 on H100, TPOT 3.5 ms",
        "Llama-3-8B KV cache of 128 B/token",
        "DeepSeek-V3 keeps 1.67 MB per token",
        "H100 SXM: 133 TFLOPS dense BF16",
        "DeepSeek-V3 FP8 on one H100",
        # The batch is bounded by memory: five sequences of 32k beside 141 GB.
        "Llama-3.1-70B bf16 on 2x H100 context 32k: 20,000 tok/s",
        "Llama-2-70B fp8 on 72x GB200: 865,000 tok/s/GPU",
        "Llama-3.1-8B on H100 TTFT 2 ms isl 4096",
        "Llama-3.1-8B bf16 on H100: prefill 200,000 tok/s",
        "Llama-3.1-8B bf16 on H100: prefill 200,000 tok/s with 50% cache hits",
        "Llama-3.1-405B FP8 on 8x H100 batch 1: 70 tok/s",
        "Llama-3.1-405B FP8 on 8x H200 batch 64, 128k context: 1,800 tok/s",
        "Kimi-K2 on 8x H100: 60 tok/s/user",
        "Qwen3-Next-80B-A3B bf16 on H100 batch 1: 100 tok/s",
        "DeepSeek-V3 FP8 on 32x H100: prefill 900,000 tok/s/node",
        "Llama-3.1-8B on H100 with EAGLE-3: 6,000 tok/s, batch 1",
        "Llama-3.1-8B bf16 on two H100s batch 1: 600 tokens a second",
        "Qwen3-30B-A3B bf16 on H100 batch 1: 700 tok/s",
        "DeepSeek-V3 FP8 on 8x H200 batch 64 TPOT 0.8 ms",
        "Llama-3.1-70B NVFP4 on B200 batch 1: 400 tok/s",
        "gpt-oss-120b on H100 batch 1 with EAGLE-3, accept length 2.5: 2,500 tok/s",
        "Llama-2-7B fp16 on RTX 4090, 64 users, context 4096: TPOT 30 ms",
    ],
)
def test_impossible_claims_are_rejected(claim: str) -> None:
    assert verdict(claim) is Verdict.IMPOSSIBLE


@pytest.mark.parametrize(
    "claim",
    [
        "Llama-3.1-8B on H100 at bs64: 158 tok/s",
        "EAGLE-3 158/244/373 tok/s, Llama-3.1-8B on H100, bs64",
        "H100 SXM: 1979 TFLOPS bf16",
        # Only if all tokens meet the same experts.
        "DeepSeek-V3 FP8 on 8x H200 batch 64 TPOT 10 ms",
        # Only if the keys and values, of which nothing is said, take 8 bits.
        "Llama-2-7B bf16 on H100 batch 1 context 128k TPOT 22 ms",
        "Llama-2-7B bf16 on H100 batch 20 context 8k TPOT 40 ms",
        # Only if the output head takes 4 bits too.
        "gemma-3-4b-it int4 on RTX 4090 batch 1: 360 tok/s",
        "Llama-3.1-8B bf16 on H100: prefill 200,000 tok/s with a prefix cache",
    ],
)
def test_mislabelled_claims_are_suspicious(claim: str) -> None:
    assert verdict(claim) is Verdict.SUSPICIOUS


@pytest.mark.parametrize(
    "claim",
    [
        *(
            f"Llama-3.1-8B bf16 on H100 batch {batch} isl 1024: TPOT {ms} ms"
            for batch, ms in ((8, 7.42), (16, 8.35), (32, 9.88), (64, 13.1), (128, 19.26))
        ),
        *(
            f"Llama-3.1-70B FP8 on H200 batch {batch} isl 1024 TPOT {ms} ms"
            for batch, ms in ((4, 21.47), (16, 24.72), (64, 37.44))
        ),
        *(
            f"Llama-3.1-70B FP8 on 4x H200 batch {batch} isl 1024 TPOT {ms} ms"
            for batch, ms in ((4, 9.85), (16, 10.94), (64, 16.07))
        ),
        "Llama-3.1-70B FP8 on 2x H100 concurrency 4: TPOT 17.41 ms",
        "Llama-3.1-70B FP8 on 8x H100 concurrency 4: TPOT 9.11 ms",
        "gpt-oss-120b on H200 concurrency 4 TPOT 6.33 ms",
        "gpt-oss-120b on 8x H200 concurrency 8 TPOT 3.97 ms",
        "DeepSeek-R1 FP8 on 8x H200 concurrency 4 TPOT 8.58 ms",
        "DeepSeek-R1 FP8 on 8x H200 concurrency 64 TPOT 23.42 ms",
        "Llama-3.1-70B bf16 on 4x H100 batch 8 ITL 18.3 ms",
        "Mistral-Nemo-12B fp16 on 2x H100 ITL 6.1 ms",
        "Qwen2.5-7B fp16 on one H100 ITL 7.0 ms",
        "Yi-34B fp16 on two H100 ITL 15.6 ms",
        "Llama-3.1-8B on H100 batch 1: 158.34 tok/s",
        "Llama-3.1-8B on H100 batch 1 with EAGLE-3: 373.25 tok/s",
        "Llama-3.1-8B on H100 batch 1: 158.34 tok/s, 373.25 tok/s with EAGLE-3",
        "Llama-3.1-8B on H100 batch 1: from 158.34 tok/s to 373.25 tok/s with EAGLE-3",
        "Llama-2-7B int4 on RTX 4090 batch 1: 191 tok/s",
        "Llama-2-7B q4_0 on RTX 4090: prefill 10,359 t/s",
        "Llama-2-70B fp8 on 72x GB200: 865,000 tok/s",
        "Llama-3-8B keeps 131072 B/token",
        "Llama-3-8B keeps 128 KiB/token",
        "Qwen3-8B fp8 KV 73728 bytes per token",
        "Llama-3.1-8B Q4_K_M on RTX 4090 batch 1: 130 tok/s",
        "Llama-3.1-8B-Instruct-AWQ on RTX 4090 batch 1: 150 tok/s",
        "Meta-Llama-3.1-70B-Instruct-FP8 on 4x H100 batch 64: 1,800 tok/s",
        "Meta-Llama-3.1-8B-Instruct-quantized.w4a16 on L4 batch 1: 40 tok/s",
        "Qwen3-30B-A3B int4 on RTX 4090 batch 1: 190 tok/s",
        "DeepSeek-R1 q4_0 on one RTX 4090 with CPU offload: 14 tok/s",
        "Llama-3.1-8B bf16 on H100 batch 64 context 32k with a shared prefix: TPOT 12 ms",
        "Llama-3.1-8B bf16 on H100: prefill 200,000 tok/s with 95% prefix cache hits",
        "Llama-3.1-8B on H100 TTFT 572 ms, 10,000 token prompt",
        "Qwen3-8B on 8x H800 TTFT 124.42 ms isl 4096",
        "DeepSeek-V3 FP8 on 96x H100 ITL 100 ms",
        "DeepSeek-V3 fp8 on 72x H100: 22,282 tok/s/node",
        "Llama-2-70B fp8 on 72x GB200: 12,022 tok/s/GPU",
        "Llama-3.1-8B on 600x Groq LPU: 800 tok/s",
        "Llama-3.1-8B on H100, 8 concurrent, context 21000, TPOT 15.18 ms",
        "gpt-oss-120b on 2x H200 batch 64 TPOT 14.42 ms",
        "Llama-3.1-8B bf16 on 8x B200: 147,000 tok/s",
        "Vicuna-13B fp16 on A100-80 batch 1 with EAGLE3, MAT 5.71: 110 tok/s",
        "gpt-oss-20b on B200 batch 1 with EAGLE-3, accept length 3.02: 700 tok/s",
        "DeepSeek-V3 FP8 on 32x H800: prefill 73.7k tok/s/node with 56.3% cache hits",
        "DeepSeek-V3 FP8 on 32x H100: prefill 57,674 tok/s/node",
        "Mixtral-8x22B bf16 on 8x H100 batch 64: 3,000 tok/s",
        "Kimi-K2 on 16x H200: 60 tok/s/user",
        "Qwen3-Next-80B-A3B fp8 on H100 batch 1: 180 tok/s",
        "Qwen2.5-72B-Instruct-GPTQ-Int4 on 1x A100-80 batch 1: 35 tok/s",
        "Llama-3.1-405B FP8 on 8x H200 batch 64, 4k context: 1,800 tok/s",
        "Llama-3.1-70B on 4x Cerebras WSE-3: 450 tok/s/user",
        "H100 SXM 989 TFLOPS bf16",
    ],
)
def test_real_numbers_are_possible(claim: str) -> None:
    assert verdict(claim) is Verdict.POSSIBLE


def test_the_floor_of_70b_in_fp8_on_an_h200_is_68_tokens_a_second_each() -> None:
    judged = check_claim(read_claim("Llama-3.3-70B FP8 on 1x H200 batch 4: 1700 tok/s", KNOWN))
    assert "272.1" in judged.findings[-1].statement
    assert "14.7 ms" in judged.findings[-1].arithmetic


def test_the_floor_of_8b_in_bf16_on_an_h100_is_4_48_ms() -> None:
    judged = check_claim(read_claim("Llama-3.1-8B bf16 on H100 TPOT 3.5 ms", KNOWN))
    assert "4.48 ms" in judged.findings[-1].statement


def test_kibibytes_read_as_bytes_are_recognised() -> None:
    judged = check_claim(read_claim("llama-3-8b 128 B/token", KNOWN))
    assert "KiB read as bytes" in judged.findings[0].statement


@pytest.mark.parametrize(
    ("text", "devices"),
    [
        ("Llama-3.1-8B on 8x H100", 8),
        ("Llama-3.1-8B on H100 x4", 4),
        ("Llama-3.1-8B on two H100", 2),
        ("Llama-3.1-8B on two H100s", 2),
        ("Llama-3.1-8B bf16 H100", 1),
        ("Llama-3.1-8B batch 4 H100", 1),
    ],
)
def test_devices_are_counted(text: str, devices: int) -> None:
    claim = read_claim(text, KNOWN)
    assert claim.device is not None
    assert claim.devices == devices


def test_what_was_said_is_read() -> None:
    claim = read_claim(
        "Qwen3-8B FP8 with fp8 KV on 2x L40S, concurrency 16, context 4k: 1.5k tok/s, "
        "prefill 9,000 tok/s, 50 tok/s/user",
        KNOWN,
    )
    assert claim.shape is not None
    assert claim.weights is not None
    assert claim.kv is not None
    assert (claim.shape.name, claim.weights.name, claim.kv.name) == ("Qwen3-8B", "fp8", "fp8")
    assert (claim.devices, claim.batch, claim.context) == (2, 16, 4096)
    assert claim.tokens_per_s == 1500
    assert claim.prefill_tokens_per_s == 9000
    assert claim.tokens_per_s_each == 50


def test_an_impossible_number_is_told_the_floor_that_even_the_kindest_reading_has() -> None:
    judged = check_claim(read_claim("DeepSeek-V3 FP8 on 8x H200 batch 64 TPOT 0.8 ms", KNOWN))
    # 37.75 GB: the same experts for all 64 tokens. Uniform routing would read 585 GB.
    assert "0.983 ms that reading 37.75 GB" in judged.findings[-1].statement
    assert "fp8" not in judged.findings[-1].statement


def test_a_rate_below_zero_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="above 0"):
        read_claim("Llama-3.1-8B on H100: -5 tok/s", KNOWN)


@pytest.mark.parametrize(
    ("claim", "says"),
    [
        ("Llama-3.1-8B on H100: 1.000 Token/s", "Give 1000 or 1.0000"),
        ("Llama-3.1-8B on H100: 12.500 output tok/s", "Give 12500 or 12.5000"),
        ("Llama-3.1-8B on H100: 1.250.000 tok/s", "Give 1250000$"),
    ],
)
def test_a_point_that_may_be_one_of_thousands_is_asked_about(claim: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        read_claim(claim, KNOWN)


@pytest.mark.parametrize(
    ("rate", "read"), [("0.125", 0.125), ("1.0000", 1.0), ("12.5", 12.5), ("1,000", 1000.0)]
)
def test_a_point_that_can_only_be_a_decimal_one_is_read(rate: str, read: float) -> None:
    assert read_claim(f"Llama-3.1-8B on H100: {rate} tok/s", KNOWN).tokens_per_s == read


def test_what_only_alike_tokens_would_explain_is_said() -> None:
    judged = check_claim(read_claim("DeepSeek-V3 FP8 on 8x H200 batch 64 TPOT 10 ms", KNOWN))
    assert "tokens that meet the same experts would explain it" in judged.findings[-1].statement


def test_a_cache_explains_prompt_tokens_that_cannot_be_computed() -> None:
    text = "Llama-3.1-8B bf16 on H100: prefill 200,000 tok/s with a prefix cache"
    assert "at least 66% of them" in check_claim(read_claim(text, KNOWN)).findings[-1].statement


@given(seconds=st.floats(1e-4, 10.0), faster=st.floats(1.0, 100.0), batch=st.integers(1, 64))
def test_a_faster_claim_is_never_more_possible_beyond_the_roof(
    seconds: float, faster: float, batch: int
) -> None:
    claim = read_claim(f"Qwen3-30B-A3B on H200 batch {batch} context 1000", KNOWN)
    slow = check_claim(replace(claim, tpot_s=seconds)).verdict
    fast = check_claim(replace(claim, tpot_s=seconds / faster)).verdict
    assert slow is not Verdict.IMPOSSIBLE or fast is Verdict.IMPOSSIBLE


@given(devices=st.integers(1, 64), tokens_per_s=st.floats(1.0, 1e7))
def test_more_devices_never_make_a_claim_impossible(devices: int, tokens_per_s: float) -> None:
    claim = replace(
        read_claim("Llama-3.1-8B on H100 context 1000", KNOWN),
        devices=devices,
        tokens_per_s=tokens_per_s,
    )
    more = check_claim(replace(claim, devices=devices + 1)).verdict
    if check_claim(claim).verdict is not Verdict.IMPOSSIBLE:
        assert more is not Verdict.IMPOSSIBLE


@pytest.mark.parametrize(
    ("text", "batch", "context"),
    [
        ("Llama-3.1-8B on H100, 64 concurrent requests, 8k context", 64, 8192),
        ("Llama-3.1-8B on H100, 12 users, 2,000-token prompts", 12, 2000),
        ("Llama-3.1-8B on H100 batch 64 context 4096 fp16", 64, 4096),
        ("Llama-3.1-8B on H100", None, 1),
    ],
)
def test_batch_and_context_are_read(text: str, batch: int | None, context: int) -> None:
    claim = read_claim(text, KNOWN)
    assert (claim.batch, claim.context) == (batch, context)


@pytest.mark.parametrize(
    ("text", "share", "cached"),
    [
        ("56.3 % cache hits", 0.563, True),
        ("with a hit rate of 80%", 0.8, True),
        ("90% of tokens cached", 0.9, True),
        ("with a shared prefix", None, True),
        ("100 % faster", None, False),
    ],
)
def test_what_a_cache_holds_is_read(text: str, share: float | None, cached: bool) -> None:
    claim = read_claim(f"Llama-3.1-8B on H100 {text}", KNOWN)
    assert claim.cached_share == pytest.approx(share)
    assert claim.prefix_cached is cached


@pytest.mark.parametrize("text", ["", "it is fast", "Llama-3.1-8B is nice"])
def test_a_claim_that_says_too_little_names_what_is_missing(text: str) -> None:
    with pytest.raises(ConfigurationError, match="it lacks"):
        verdict(text)


def test_numbers_that_claim_nothing_are_refused() -> None:
    with pytest.raises(ConfigurationError):
        Claim(batch=0)
    with pytest.raises(ConfigurationError):
        Claim(accept_length=0.5)
    with pytest.raises(ConfigurationError):
        Claim(cached_share=1.0)
    with pytest.raises(ConfigurationError):
        Claim(ttft_s=0.0)
    with pytest.raises(ConfigurationError):
        read_claim("a" * 3000, KNOWN)


def test_a_plural_and_a_rate_a_second_are_read() -> None:
    claim = read_claim("batch 8 Llama-3.1-8B on two H100s 1200 tokens a second", KNOWN)
    assert (claim.devices, claim.tokens_per_s, claim.batch) == (2, 1200, 8)
    assert claim.device is not None
    assert claim.device.name == "H100-SXM"


def test_a_claim_without_a_number_that_was_read_says_so() -> None:
    report, _ = plan_check(read_claim("Llama-3.1-8B on H100: nan tok/s", KNOWN))
    assert any("No speed was read" in warning for warning in report.warnings)


def test_the_reason_of_what_is_possible_is_the_speed_that_was_claimed() -> None:
    report, _ = plan_check(read_claim("Llama-3.1-8B on H100 at 12000 tok/s", KNOWN))
    assert "12,000 tokens/s" in report.verdict[0]
