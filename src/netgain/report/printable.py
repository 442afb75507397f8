"""Text from elsewhere, made harmless for a terminal."""

import unicodedata


def printable(text: str) -> str:
    """The text with control characters (but line feeds and tabs) shown as their code points.

    A server's words may hold escape sequences; a terminal would obey them.
    """
    if text.isprintable():
        return text
    return "".join(
        f"\\x{ord(c):02x}" if unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t" else c
        for c in text
    )
