"""Published numbers: impossible ones are rejected, real ones are not."""

import pytest

from netgain.cost.claim import Claim, Verdict, check_claim
from netgain.cost.claim_text import read_claim
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
        "Llama-3.1-8B bf16 on H100, TPOT 3.5 ms",
        "Llama-3-8B KV cache of 128 B/token",
        "DeepSeek-V3 keeps 1.67 MB per token",
        "H100 SXM: 133 TFLOPS dense BF16",
        "DeepSeek-V3 FP8 on one H100",
    ],
)
def test_impossible_claims_are_rejected(claim: str) -> None:
    assert verdict(claim) is Verdict.IMPOSSIBLE


@pytest.mark.parametrize(
    "claim",
    [
        "Llama-3.1-8B on H100 at bs64: 158 tok/s",
        "H100 SXM: 1979 TFLOPS bf16",
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
        "Llama-2-7B int4 on RTX 4090 batch 1: 191 tok/s",
        "Llama-2-7B q4_0 on RTX 4090: prefill 10,359 t/s",
        "Llama-2-70B fp8 on 72x GB200: 865,000 tok/s",
        "Llama-3-8B keeps 131072 B/token",
        "Llama-3-8B keeps 128 KiB/token",
        "Qwen3-8B fp8 KV 73728 bytes per token",
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
        read_claim("a" * 3000, KNOWN)
