"""Names for requests."""

import re
import secrets
from typing import Final

from netgain.server.ledger_book import LedgerBook

_VALID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")


def request_id(asked: str | None) -> str:
    """The client's own `X-Request-Id` where it is usable, a new id otherwise."""
    if asked is None or _VALID.fullmatch(asked) is None:
        return secrets.token_hex(12)
    return asked


def distinct(id_: str, book: LedgerBook) -> str:
    """The id, with a suffix where it is taken: two requests never share a ledger."""
    return f"{id_}-{secrets.token_hex(4)}" if book.knows(id_) else id_
