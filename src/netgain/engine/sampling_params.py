"""How one request's tokens are chosen and when it ends."""

import math
from typing import Final

import msgspec

from netgain.errors import InvalidRequestError

MAX_STOP_STRINGS: Final = 64
MAX_STOP_BYTES: Final = 4096
MAX_STOP_TOKEN_IDS: Final = 1024
MAX_LOGIT_BIAS: Final = 1024
MAX_LOGPROBS: Final = 20
MAX_SAMPLES: Final = 128
_MAX_INT64: Final = 2**63 - 1
_WORD: Final = 2**64 - 1
_MAX_BIAS: Final = 100.0
_MAX_PENALTY: Final = 2.0
_MAX_REPETITION: Final = 100.0
GREEDY_TEMPERATURE: Final = 1e-5
"""At and below this a temperature means greedy: dividing by less gains nothing but overflow."""


class SamplingParams(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Sampling and stop conditions of one request.

    Order: `logit_bias` is added to the logits and stop tokens are ruled out until `min_tokens`;
    then come the penalties (repetition, frequency, presence), then the division by `temperature`,
    then the `top_k` largest are kept, of these the smallest set whose probability reaches `top_p`,
    of these those at least `min_p` times as likely as the likeliest. `netgain.ops.draws` has it
    exactly. With a temperature of at most `GREEDY_TEMPERATURE` the largest logit is taken after
    bias and penalties.

    `seed` makes the request's text a function of prompt, settings and seed alone; without one, a
    seed is drawn on arrival. `max_tokens=None` means as many as the context allows.

    Raises `InvalidRequestError` for any value out of range; `check_vocabulary` has to be called
    with the model's size.
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
    min_p: float = 0.0
    """0 to 1; 0: no limit."""
    repetition_penalty: float = 1.0
    """Above 0, at most 100; above 1, tokens of prompt and answer become less likely."""
    presence_penalty: float = 0.0
    """-2 to 2, taken off the logits of tokens that the answer has."""
    frequency_penalty: float = 0.0
    """-2 to 2, taken off the logits for each time that the answer has the token."""
    logit_bias: tuple[tuple[int, float], ...] = ()
    """(token id, -100 to 100), distinct ids, added to the logits."""
    min_tokens: int = 0
    """Before so many tokens neither stop tokens nor end of sequence are drawn, nor stop strings
    looked for."""
    logprobs: int | None = None
    """None, or of each token its log-probability and so many alternatives, at most 20."""
    prompt_logprobs: int | None = None
    """The same of each prompt token but the first. The prefix cache is then not read."""

    def __post_init__(self) -> None:
        _check_number("temperature", self.temperature, 0.0, 100.0)
        _check_number("top_p", self.top_p, 0.0, 1.0)
        if self.top_p == 0.0:
            raise InvalidRequestError("top_p must be above 0 (and at most 1)", "top_p")
        _check_number("min_p", self.min_p, 0.0, 1.0)
        _check_number("repetition_penalty", self.repetition_penalty, 0.0, _MAX_REPETITION)
        if self.repetition_penalty == 0.0:
            raise InvalidRequestError(
                f"repetition_penalty must be above 0 (and at most {_MAX_REPETITION:g}); "
                "1 means no penalty",
                "repetition_penalty",
            )
        _check_number("presence_penalty", self.presence_penalty, -_MAX_PENALTY, _MAX_PENALTY)
        _check_number("frequency_penalty", self.frequency_penalty, -_MAX_PENALTY, _MAX_PENALTY)
        if self.top_k < -1:
            raise InvalidRequestError("top_k must be 0 or -1 (no limit), or at least 1", "top_k")
        if self.top_k > _MAX_INT64:
            raise InvalidRequestError("top_k must fit in 64 bits", "top_k")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise InvalidRequestError("max_tokens must be at least 1", "max_tokens")
        if self.min_tokens < 0:
            raise InvalidRequestError("min_tokens must be 0 or more", "min_tokens")
        if self.min_tokens > (_MAX_INT64 if self.max_tokens is None else self.max_tokens):
            raise InvalidRequestError(
                f"min_tokens ({self.min_tokens}) is above max_tokens ({self.max_tokens})",
                "min_tokens",
            )
        _check_tops("logprobs", self.logprobs)
        _check_tops("prompt_logprobs", self.prompt_logprobs)
        self._check_bias()
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

    def _check_bias(self) -> None:
        if not self.logit_bias:
            return
        if len(self.logit_bias) > MAX_LOGIT_BIAS:
            raise InvalidRequestError(
                f"logit_bias has {len(self.logit_bias)} entries; at most {MAX_LOGIT_BIAS} are "
                "accepted",
                "logit_bias",
            )
        for token, bias in self.logit_bias:
            if not 0 <= token <= _MAX_INT64:
                raise InvalidRequestError("logit_bias must name token ids: 0 and up", "logit_bias")
            _check_number("logit_bias", bias, -_MAX_BIAS, _MAX_BIAS)
        if len({token for token, _ in self.logit_bias}) < len(self.logit_bias):
            raise InvalidRequestError("logit_bias names a token id twice", "logit_bias")

    def check_vocabulary(self, vocab_size: int) -> None:
        """Raises `InvalidRequestError` for a named token that the model does not have."""
        if any(token >= vocab_size for token in self.stop_token_ids):
            raise InvalidRequestError(
                f"stop_token_ids: token id {max(self.stop_token_ids)} is not in the vocabulary "
                f"(0 to {vocab_size - 1})",
                "stop_token_ids",
            )
        for token, _ in self.logit_bias:
            if token >= vocab_size:
                raise InvalidRequestError(
                    f"logit_bias: token id {token} is not in the vocabulary "
                    f"(0 to {vocab_size - 1})",
                    "logit_bias",
                )

    @property
    def penalises(self) -> bool:
        """Whether tokens seen before are treated differently."""
        return self.repetition_penalty != 1.0 or self.penalises_answer

    @property
    def penalises_answer(self) -> bool:
        """Whether that depends on how often the answer has them."""
        return self.presence_penalty != 0.0 or self.frequency_penalty != 0.0

    @property
    def plain(self) -> bool:
        """Whether a draw takes nothing but temperature, top_k and top_p, and nothing is scored."""
        return (
            self.logprobs is None
            and self.prompt_logprobs is None
            and self.min_p == 0.0
            and not self.min_tokens
            and not self.logit_bias
            and not self.penalises
        )

    @property
    def greedy(self) -> bool:
        """Whether the most likely token is always taken."""
        return self.temperature <= GREEDY_TEMPERATURE or self.top_k == 1


def sample_seed(seed: int, index: int) -> int:
    """The seed of one of several samples; the first has the request's own.

    The others are mixed (SplitMix64, https://doi.org/10.1145/2660193.2660195), so that seeds that
    follow each other share no samples.
    """
    if index == 0:
        return seed
    word = (seed + index * 0x9E3779B97F4A7C15) & _WORD
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _WORD
    return word ^ (word >> 31)


def _check_tops(name: str, value: int | None) -> None:
    if value is not None and not 0 <= value <= MAX_LOGPROBS:
        raise InvalidRequestError(f"{name} must be between 0 and {MAX_LOGPROBS}", name)


def _check_number(name: str, value: float, low: float, high: float) -> None:
    if not math.isfinite(value) or not low <= value <= high:
        raise InvalidRequestError(
            f"{name} must be a number between {low:g} and {high:g}, got {value}", name
        )
