"""What the server's prefix cache saved, as it says itself, by tokens and by requests."""

from dataclasses import dataclass

import numpy as np

from netgain.lab.metrics.columns import BoolArray, RequestColumns


@dataclass(frozen=True, slots=True)
class CacheHits:
    """Raw counts over the requests whose usage said how many prompt tokens were cached.

    By tokens and by requests: ninety requests that hit 16 tokens save less than ten that hit
    50,000.
    """

    requests: int
    hit_requests: int
    prompt_tokens: int
    hit_tokens: int

    @property
    def request_rate(self) -> float:
        """Share of requests that hit anything."""
        return self.hit_requests / self.requests

    @property
    def token_rate(self) -> float:
        """Share of prompt tokens that were hits; 0 when there were no prompt tokens."""
        return self.hit_tokens / self.prompt_tokens if self.prompt_tokens else 0.0

    @classmethod
    def of(cls, columns: RequestColumns, among: BoolArray) -> "CacheHits | None":
        """None when no usage told."""
        told = among & ~np.isnan(columns.cached_tokens)
        if not told.any():
            return None
        cached = columns.cached_tokens[told]
        return cls(
            requests=int(told.sum()),
            hit_requests=int(np.sum(cached > 0)),
            prompt_tokens=int(columns.prompt_tokens[told].sum()),
            hit_tokens=int(cached.sum()),
        )
