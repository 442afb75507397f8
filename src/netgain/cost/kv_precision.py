"""When a KV cache of fewer bits pays in latency."""

from dataclasses import dataclass

from netgain.cost.bounds import at_least_zero


@dataclass(frozen=True, slots=True)
class LinearITL:
    """Time between tokens as a line: `base_s` + `per_token_s` x context (of the whole batch).

    Source of the form: R22, H100, Llama-3.1-8B, batch 1.
    """

    base_s: float
    per_token_s: float

    def itl_s(self, context_tokens: float) -> float:
        """Seconds between tokens at this context."""
        return self.base_s + self.per_token_s * at_least_zero("context_tokens", context_tokens)


R22_BF16 = LinearITL(base_s=6.44e-3, per_token_s=4.37e-8)
"""H100, Llama-3.1-8B, KV in bf16: 6.44 ms + 4.37e-5 ms per token. Source: vLLM post 2026-04-22."""
R22_FP8 = LinearITL(base_s=6.58e-3, per_token_s=2.37e-8)
"""The same with KV in fp8: 6.58 ms + 2.37e-5 ms per token."""


def break_even_context_tokens(wide: LinearITL, narrow: LinearITL) -> float | None:
    """Context above which the narrow format is faster: difference of bases over that of slopes.

    0 where it is faster at once, None where it never is.
    """
    extra_s = narrow.base_s - wide.base_s
    saved_s = wide.per_token_s - narrow.per_token_s
    if extra_s <= 0 and saved_s >= 0:
        return 0.0
    if saved_s <= 0:
        return None
    return extra_s / saved_s
