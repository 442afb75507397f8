"""`prompt` in each of its forms."""

from typing import Final

from netgain.server.body import json_type
from netgain.server.errors import ApiError, bad_request

MAX_PROMPTS: Final = 128

PromptText = str | tuple[int, ...]
"""One prompt: text, or token ids as they are."""


def parse_prompts(
    value: object, max_prompt_tokens: int, field: str = "prompt", most: int = MAX_PROMPTS
) -> tuple[PromptText, ...]:
    """A prompt in each of its four forms, given as `field`; `most` of them in a list.

    A list longer than `max_prompt_tokens` is refused before its ids are looked at. Raises
    `ApiError` (400) for anything else.
    """
    if isinstance(value, str):
        return (_checked(value, field, field, max_prompt_tokens),)
    if not isinstance(value, list):
        raise bad_request(
            f"{field} must be a string, a list of strings or token ids, not {json_type(value)}",
            field,
        )
    if not value:
        raise bad_request(f"{field} must not be an empty list", field)
    if isinstance(value[0], int):
        return (_checked(value, field, field, max_prompt_tokens),)
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
    return tuple(
        _checked(item, field, f"{field}[{at}]", max_prompt_tokens) for at, item in enumerate(value)
    )


def _checked(value: object, field: str, where: str, max_prompt_tokens: int) -> PromptText:
    if not value:
        raise bad_request(f"{where} is empty; it must hold at least one token", field)
    if isinstance(value, str):
        return value
    assert isinstance(value, list)
    if len(value) > max_prompt_tokens:
        raise prompt_too_long(len(value), max_prompt_tokens, field=field)
    if any(type(id_) is not int for id_ in value):
        raise bad_request(f"{where} must hold token ids (integers) only", field)
    return tuple(value)


def prompt_too_long(
    tokens: int, limit: int, *, at_least: bool = False, field: str = "prompt"
) -> ApiError:
    """400: no room for the prompt and one token more."""
    count = f"at least {tokens}" if at_least else f"{tokens}"
    return bad_request(
        f"the prompt has {count} tokens; at most {limit} fit into this model's context of "
        f"{limit + 1} with room for one token of answer: shorten it",
        field,
        "context_length_exceeded",
    )
