"""Text to ids without keeping other threads waiting."""

from typing import Final

import tokenizers

_SHORT_CHARS: Final = 1_000
"""Encoded in a fraction of a millisecond, which the detour for longer ones would double."""


def token_ids(backend: tokenizers.Tokenizer, text: str, *, add_special_tokens: bool) -> list[int]:
    """Ids of `text`. Raises `TypeError` for text that is not valid Unicode.

    The library holds the interpreter's lock while it encodes one text, and gives it up while it
    encodes a batch: the ids are the same.
    """
    if len(text) <= _SHORT_CHARS:
        found: list[int] = backend.encode(text, add_special_tokens=add_special_tokens).ids
        return found
    (encoded,) = backend.encode_batch_fast([text], add_special_tokens=add_special_tokens)
    ids: list[int] = encoded.ids
    return ids
