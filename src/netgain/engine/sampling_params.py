"""How one request's tokens are chosen and when it ends."""

import math
from typing import Final

import msgspec

from netgain.errors import InvalidRequestError

MAX_STOP_STRINGS: Final = 64
MAX_STOP_BYTES: Final = 4096
MAX_STOP_TOKEN_IDS: Final = 1024
_MAX_INT64: Final = 2**63 - 1
GREEDY_TEMPERATURE: Final = 1e-5
"""At and below this a temperature means greedy: dividing by less gains nothing but overflow."""


class SamplingParams(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Sampling and stop conditions of one request.

    Order: logits / temperature, then the `top_k` largest, then the smallest set whose probability
    reaches `top_p`. `seed` makes the request's text a function of prompt and seed alone; without
    one, a seed is drawn on arrival. `max_tokens=None` means as many as the context allows.

    Raises `InvalidRequestError` for any value out of range.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    """0 and -1: no limit."""
    seed: int | None = None
    max_tokens: int | None = 16
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False

    def __post_init__(self) -> None:
        _check_number("temperature", self.temperature, 0.0, 100.0)
        _check_number("top_p", self.top_p, 0.0, 1.0)
        if self.top_p == 0.0:
            raise InvalidRequestError("top_p must be above 0 (and at most 1)", "top_p")
        if self.top_k < -1:
            raise InvalidRequestError("top_k must be 0 or -1 (no limit), or at least 1", "top_k")
        if self.top_k > _MAX_INT64:
            raise InvalidRequestError("top_k must fit in 64 bits", "top_k")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise InvalidRequestError("max_tokens must be at least 1", "max_tokens")
        if self.seed is not None and not -_MAX_INT64 - 1 <= self.seed <= _MAX_INT64:
            raise InvalidRequestError("seed must fit in 64 bits", "seed")
        if len(self.stop) > MAX_STOP_STRINGS:
            raise InvalidRequestError(
                f"stop has {len(self.stop)} entries; at most {MAX_STOP_STRINGS} are accepted",
                "stop",
            )
        for stop in self.stop:
            if not stop:
                raise InvalidRequestError("stop must not contain an empty string", "stop")
            if len(stop.encode("utf-8", "surrogatepass")) > MAX_STOP_BYTES:
                raise InvalidRequestError(
                    f"a stop string is longer than {MAX_STOP_BYTES} bytes", "stop"
                )
        if len(self.stop_token_ids) > MAX_STOP_TOKEN_IDS:
            raise InvalidRequestError(
                f"stop_token_ids has more than {MAX_STOP_TOKEN_IDS} entries", "stop_token_ids"
            )
        if any(not 0 <= id_ <= _MAX_INT64 for id_ in self.stop_token_ids):
            raise InvalidRequestError(
                "stop_token_ids must hold token ids: 0 and up, within 64 bits", "stop_token_ids"
            )

    @property
    def greedy(self) -> bool:
        """Whether the most likely token is always taken."""
        return self.temperature <= GREEDY_TEMPERATURE or self.top_k == 1


def _check_number(name: str, value: float, low: float, high: float) -> None:
    if not math.isfinite(value) or not low <= value <= high:
        raise InvalidRequestError(
            f"{name} must be a number between {low:g} and {high:g}, got {value}", name
        )
