"""`prompt` in each of its forms."""

from dataclasses import dataclass, replace
from typing import Final

from pydantic.config import JsonDict

from netgain.errors import InvalidRequestError
from netgain.server.body import json_type
from netgain.server.errors import ApiError, bad_request

MAX_PROMPTS: Final = 128

PromptText = str | tuple[int, ...]
"""One prompt: text, or token ids as they are."""

_CALLED: Final = {
    "prompt": "the prompt",
    "messages": "the conversation",
    "input": "an input",
    "tokens": "the list",
}


def prompt_forms(most: int) -> JsonDict:
    """The JSON schema of what `parse_prompts` reads: one prompt, or up to `most`."""
    text: JsonDict = {"type": "string", "minLength": 1}
    ids: JsonDict = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1}

    def several(one: JsonDict) -> JsonDict:
        return {"type": "array", "items": one, "minItems": 1, "maxItems": most}

    return {"anyOf": [text, several(text), ids, several(ids)]}


@dataclass(frozen=True, slots=True)
class PromptLimits:
    """What the engine can take; an answer that is wanted must have room for its first token."""

    context_tokens: int
    vocab_size: int
    answered: bool = True

    @property
    def max_prompt_tokens(self) -> int:
        """Of one prompt."""
        return self.context_tokens - self.answered

    def unanswered(self) -> "PromptLimits":
        """The same where nothing is generated."""
        return replace(self, answered=False)

    def check(self, ids: tuple[int, ...], field: str) -> None:
        """Raises `ApiError` or `InvalidRequestError` (400) for ids no engine should see."""
        if not ids:
            raise InvalidRequestError(f"{field} has no tokens; it must have at least one", field)
        if len(ids) > self.max_prompt_tokens:
            raise self.too_long(len(ids), field)
        if min(ids) < 0 or max(ids) >= self.vocab_size:
            raise InvalidRequestError(
                f"{field} holds a token id outside the vocabulary (0 to {self.vocab_size - 1})",
                field,
            )

    def too_long(self, tokens: int, field: str, *, at_least: bool = False) -> ApiError:
        """400: so many tokens do not fit."""
        count = f"at least {tokens}" if at_least else f"{tokens}"
        room = " with room for one token of answer" if self.answered else ""
        return bad_request(
            f"{_CALLED.get(field, field)} has {count} tokens; at most {self.max_prompt_tokens} fit "
            f"into this model's context of {self.context_tokens}{room}: shorten it",
            field,
            "context_length_exceeded",
        )


def parse_prompts(
    value: object, limits: PromptLimits, field: str = "prompt", most: int = MAX_PROMPTS
) -> tuple[PromptText, ...]:
    """A prompt in each of its four forms, given as `field`; `most` of them in a list.

    A list longer than `limits` allow is refused before its ids are looked at. Raises
    `ApiError` (400) for anything else.
    """
    if isinstance(value, str):
        return (_checked(value, field, field, limits),)
    if not isinstance(value, list):
        raise bad_request(
            f"{field} must be a string, a list of strings or token ids, not {json_type(value)}",
            field,
        )
    if not value:
        raise bad_request(f"{field} must not be an empty list", field)
    if isinstance(value[0], int):
        return (_checked(value, field, field, limits),)
    if len(value) > most:
        raise bad_request(
            f"{field} holds {len(value)} texts; at most {most} are accepted: send several requests",
            field,
        )
    kind = type(value[0])
    if kind not in (str, list) or any(type(item) is not kind for item in value):
        raise bad_request(
            f"{field} must be a list of strings, of token ids, or of lists of token ids", field
        )
    return tuple(_checked(item, field, f"{field}[{at}]", limits) for at, item in enumerate(value))


def _checked(value: object, field: str, where: str, limits: PromptLimits) -> PromptText:
    if not value:
        raise bad_request(f"{where} is empty; it must hold at least one token", field)
    if isinstance(value, str):
        return value
    assert isinstance(value, list)
    if len(value) > limits.max_prompt_tokens:
        raise limits.too_long(len(value), field)
    if any(type(id_) is not int for id_ in value):
        raise bad_request(f"{where} must hold token ids (integers) only", field)
    return tuple(value)
