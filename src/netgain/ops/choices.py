"""What a user may ask of a backend; the backend says what each `auto` became.

Standard library only, so that settings and command line can use it.
"""

import enum


class BackendName(enum.StrEnum):
    """Who computes."""

    AUTO = "auto"
    """The fastest that runs here."""
    NATIVE = "native"
    """Kernels compiled for this machine's processor."""
    TORCH = "torch"
    """Library calls; runs everywhere."""


class WeightFormat(enum.StrEnum):
    """How matrices are kept in memory."""

    AUTO = "auto"
    AS_STORED = "as-stored"
    """In the checkpoint's own precision, quantised blocks included."""
    INT8 = "int8"
    INT4 = "int4"
    BF16 = "bf16"
    FP32 = "fp32"


class KVFormat(enum.StrEnum):
    """How keys and values are kept; the concrete ones go by the names of `kv.geometry.KVDType`."""

    AUTO = "auto"
    FP32 = "fp32"
    FP16 = "fp16"
    BF16 = "bf16"
    INT8 = "int8"


class Numerics(enum.StrEnum):
    """Whether a row's result may depend on who shares its step."""

    AUTO = "auto"
    """Invariant where the backend can promise it."""
    INVARIANT = "invariant"
    """Bit-equal alone, batched, chunked, cached and preempted."""
    FAST = "fast"
    """Whatever is fastest; the last bits may depend on company."""
