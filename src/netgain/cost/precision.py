"""How many bytes a weight, or a key or value, takes, its scales included."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from netgain.cost.model_shape import Part
from netgain.errors import ConfigurationError
from netgain.hardware.device import Precision
from netgain.hardware.names import nearest, normalised


class Covers(StrEnum):
    """Which matrices a weight format applies to; the rest stays 16 bit."""

    ALL = "all"
    """Every matrix, embeddings and output head included (GGUF files)."""
    LINEAR = "linear"
    """The matrices inside the layers; embeddings, output head, router and norms stay 16 bit."""
    EXPERTS = "experts"
    """Expert matrices only (gpt-oss)."""


@dataclass(frozen=True, slots=True)
class StoredPart:
    """What a file holds of one part: its bytes, scales included, for so many parameters."""

    part: Part
    parameters: int
    bytes: int


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """`bits` a weight takes with its group scales; `computes_in` what the matrix unit multiplies.

    `rule_bytes` is the round number of the rule of thumb, without scales. `stored` overrides all of
    it with the bytes of real tensors.
    """

    name: str
    bits: float
    rule_bytes: float
    covers: Covers
    computes_in: Precision
    note: str = ""
    stored: tuple[StoredPart, ...] = ()

    @property
    def bytes(self) -> float:
        """Bytes per weight, scales included."""
        return self.bits / 8


_B: Final = Precision
WEIGHT_FORMATS: Final = (
    WeightFormat("fp32", 32, 4, Covers.ALL, _B.FP32),
    WeightFormat("bf16", 16, 2, Covers.ALL, _B.BF16),
    WeightFormat("fp8", 8, 1, Covers.LINEAR, _B.FP8, "one scale per matrix or channel: negligible"),
    WeightFormat(
        "fp8-block", 8 + 32 / 128**2, 1, Covers.LINEAR, _B.FP8, "an fp32 scale per 128x128 block"
    ),
    WeightFormat("int8", 8, 1, Covers.LINEAR, _B.INT8, "one scale per channel: negligible"),
    WeightFormat(
        "int4", 4 + (16 + 4) / 128, 0.5, Covers.LINEAR, _B.BF16,
        "fp16 scale and 4-bit zero per 128 weights; multiplied in bf16",
    ),
    WeightFormat("mxfp4", 4 + 8 / 32, 0.5, Covers.EXPERTS, _B.FP4, "8-bit scale per 32 weights"),
    WeightFormat("nvfp4", 4 + 8 / 16, 0.5, Covers.LINEAR, _B.FP4, "fp8 scale per 16 weights"),
    WeightFormat("q8_0", 8.5, 1, Covers.ALL, _B.BF16, "GGUF: fp16 scale per 32"),
    WeightFormat("q6_k", 6.5625, 0.75, Covers.ALL, _B.BF16, "GGUF"),
    WeightFormat("q5_k", 5.5, 0.625, Covers.ALL, _B.BF16, "GGUF"),
    WeightFormat("q5_1", 6.0, 0.625, Covers.ALL, _B.BF16, "GGUF"),
    WeightFormat("q5_0", 5.5, 0.625, Covers.ALL, _B.BF16, "GGUF"),
    WeightFormat("q4_k", 4.5, 0.5, Covers.ALL, _B.BF16, "GGUF"),
    WeightFormat("q4_1", 5.0, 0.5, Covers.ALL, _B.BF16, "GGUF: fp16 scale and minimum per 32"),
    WeightFormat("q4_0", 4.5, 0.5, Covers.ALL, _B.BF16, "GGUF: fp16 scale per 32"),
    WeightFormat("q3_k", 3.4375, 0.375, Covers.ALL, _B.BF16, "GGUF"),
    WeightFormat("q2_k", 2.625, 0.25, Covers.ALL, _B.BF16, "GGUF"),
)  # fmt: skip
_WEIGHT_ALIASES: Final = {
    "fp16": "bf16",
    "float16": "bf16",
    "bfloat16": "bf16",
    "half": "bf16",
    "float32": "fp32",
    "float": "fp32",
    "fp8e4m3": "fp8",
    "fp8dynamic": "fp8",
    "w8a8": "int8",
    "awq": "int4",
    "gptq": "int4",
    "w4a16": "int4",
    "4bit": "int4",
    "8bit": "int8",
    "fp4": "nvfp4",
    "nf4": "int4",
    "bnb": "int4",
    "awqint4": "int4",
    "gptqint4": "int4",
    "q2ks": "q2_k",
    "q3ks": "q3_k",
    "q3km": "q3_k",
    "q3kl": "q3_k",
    "q4km": "q4_k",
    "q4ks": "q4_k",
    "q5km": "q5_k",
    "q5ks": "q5_k",
    "q80": "q8_0",
}


def is_weight_format(name: str) -> bool:
    """Whether a weight format answers to this name."""
    key = normalised(name)
    return key in _WEIGHT_ALIASES or any(key == normalised(fmt.name) for fmt in WEIGHT_FORMATS)


def weight_format(name: str) -> WeightFormat:
    """The format of this name. Raises `ConfigurationError` naming the nearest ones."""
    known = {normalised(fmt.name): fmt for fmt in WEIGHT_FORMATS}
    key = normalised(name)
    key = normalised(_WEIGHT_ALIASES.get(key, key))
    if key not in known:
        near = nearest(name, {k: fmt.name for k, fmt in known.items()})
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        raise ConfigurationError(
            f"unknown weight format {name!r}: {hint}Known are "
            f"{', '.join(fmt.name for fmt in WEIGHT_FORMATS)}"
        )
    return known[key]


@dataclass(frozen=True, slots=True)
class KVFormat:
    """`bytes` of one key or value element; `scale_bytes` per head, token, and K or V."""

    name: str
    bytes: float
    scale_bytes: float = 0.0


KV_FORMATS: Final = (
    KVFormat("fp32", 4),
    KVFormat("bf16", 2),
    KVFormat("fp8", 1),
    KVFormat("fp8-scaled", 1, 4),
    KVFormat("int8", 1, 4),
    KVFormat("int4", 0.5, 4),
)


def kv_format(name: str) -> KVFormat:
    """The KV format of this name; fp16 is bf16. Raises `ConfigurationError`."""
    known = {normalised(fmt.name): fmt for fmt in KV_FORMATS}
    key = normalised(name)
    key = {"fp16": "bf16", "float16": "bf16", "bfloat16": "bf16", "auto": "bf16",
           "fp8e4m3": "fp8", "fp8e5m2": "fp8", "float32": "fp32"}.get(key, key)  # fmt: skip
    if key not in known:
        raise ConfigurationError(
            f"unknown KV format {name!r}: known are {', '.join(fmt.name for fmt in KV_FORMATS)}"
        )
    return known[key]
