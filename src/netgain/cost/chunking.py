"""Chunk size: what a prefill chunk takes from the decodes beside it, and what small chunks cost.

A step with a chunk of C tokens lasts longer than one without: that difference is the interference
each decode in it suffers. Smaller chunks mean more steps: the weights and the KV already made are
read again in each.
"""

from dataclasses import dataclass
from typing import Final

from netgain.cost.bounds import count, positive
from netgain.cost.step_costs import StepCosts, mixed
from netgain.cost.step_work import decode
from netgain.errors import ConfigurationError

MOST_STEPS: Final = 4096
"""Of one prompt: they are added up one by one."""
MOST_PROMPT_TOKENS: Final = 1 << 24
"""Longer than any model's context."""


@dataclass(frozen=True, slots=True)
class ChunkChoice:
    """What one chunk size does to a prompt and to the decodes that share its steps. Seconds.

    `mixed_itl_s` is the longest gap between tokens while the prompt is prefilled (its last chunk),
    `interference_s` what that is above `plain_itl_s`, `prefill_s` the prompt's own time to its
    first token beside the decodes, `overhead_s` what that is above prefilling it in one step,
    `reread_tokens` positions of KV read again by later chunks.
    """

    chunk_tokens: int
    steps: int
    plain_itl_s: float
    mixed_itl_s: float
    prefill_s: float
    overhead_s: float
    reread_tokens: int

    @property
    def interference_s(self) -> float:
        """Seconds that one token of every decoding neighbour waits longer, at most.

        Published: 120 ms (R74: 150 ms beside a chunk, 30 ms without).
        """
        return self.mixed_itl_s - self.plain_itl_s


def choice_of(
    costs: StepCosts, prompt_tokens: int, chunk_tokens: int, batch: int, context_tokens: int
) -> ChunkChoice:
    """One chunk size for a prompt that arrives beside `batch` decodes of `context_tokens`.

    `batch` may be 0: then nobody suffers and only the overhead is left.
    """
    count("prompt_tokens", prompt_tokens)
    count("chunk_tokens", chunk_tokens)
    count("batch", batch, least=0)
    if prompt_tokens > chunk_tokens * MOST_STEPS:
        raise ConfigurationError(
            f"a prompt of {prompt_tokens:,} tokens in chunks of {chunk_tokens:,} takes more than "
            f"{MOST_STEPS:,} steps: give chunks of {-(-prompt_tokens // MOST_STEPS):,} or more"
        )
    plain = costs.seconds(decode(batch, context_tokens)) if batch else 0.0
    longest, whole, reread, done, steps = plain, 0.0, 0, 0, 0
    while done < prompt_tokens:
        piece = min(chunk_tokens, prompt_tokens - done)
        seconds = costs.seconds(mixed(batch, context_tokens, done, piece))
        longest = max(longest, seconds)
        whole += seconds
        reread += done
        done += piece
        steps += 1
    at_once = costs.seconds(mixed(batch, context_tokens, 0, prompt_tokens))
    return ChunkChoice(chunk_tokens, steps, plain, longest, whole, whole - at_once, reread)


def largest_chunk_tokens(
    costs: StepCosts, prompt_tokens: int, batch: int, context_tokens: int, itl_s: float
) -> int:
    """Most tokens a chunk may have so that even the last one's step stays within `itl_s`.

    0 where not even one token fits. Step time grows with the chunk, so bisection finds it.
    """
    positive("itl_s", itl_s)

    def fits(chunk: int) -> bool:
        return costs.seconds(mixed(batch, context_tokens, prompt_tokens - chunk, chunk)) <= itl_s

    if fits(prompt_tokens):
        return prompt_tokens
    low, high = 0, prompt_tokens
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
