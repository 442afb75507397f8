"""Whether a text has too many tokens, found without encoding all of it."""

from collections.abc import Mapping
from typing import Final

from netgain.text.tokenizer import Tokenizer

SLICE_CHARS: Final = 16_384
_EDGE_TOKENS: Final = 64
"""So many tokens more than in the whole text a slice may have: its ends cut words, spellings of
control tokens and marks into pieces."""


def tokens_beyond(
    tokenizer: Tokenizer,
    text: str,
    limit: int,
    *,
    quoted: Mapping[str, str] | None = None,
    parse_special: bool = True,
) -> int | None:
    """How many tokens `text` has at least, where that is more than `limit`; None where it may fit.

    Encodes slice after slice until there are too many, so a text of megabytes costs what `limit`
    tokens do. `quoted` and `parse_special` as for the tokenizer. Raises `InvalidRequestError` for
    text that is not valid Unicode.
    """
    if len(text) <= 2 * SLICE_CHARS:
        return None
    least = 0
    for start in range(0, len(text), SLICE_CHARS):
        piece = text[start : start + SLICE_CHARS]
        if quoted:
            ids = tokenizer.encode_quoted(piece, quoted)
        else:
            ids = tokenizer.encode(piece, parse_special=parse_special)
        least += max(len(ids) - _EDGE_TOKENS, 0)
        if least > limit:
            return least
    return None
