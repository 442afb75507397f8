"""Names for requests."""

import re
import secrets
from typing import Final

from netgain.server.ledger_book import LedgerBook

_VALID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")


def request_id(asked: str | None, book: LedgerBook) -> str:
    """The client's own `X-Request-Id` where it is usable, a new id otherwise.

    An id that is taken gets a suffix, so that two requests never share a ledger.
    """
    if asked is None or _VALID.fullmatch(asked) is None:
        return secrets.token_hex(12)
    return f"{asked}-{secrets.token_hex(4)}" if book.knows(asked) else asked
