"""Who may share cached prefixes with whom."""

import hmac
from hashlib import sha256
from typing import Final

_PURPOSE: Final = b"netgain prefix cache salt\x00"


def cache_salt(api_key: str | None, client_salt: str) -> str:
    """The salt of a request: a keyed hash of the client's salt under the API key.

    Derived here, so that no client can name another key's salt. Empty (everybody shares) where
    there is neither key nor salt.
    """
    if api_key is None and not client_salt:
        return ""
    key = b"" if api_key is None else api_key.encode()
    return hmac.new(key, _PURPOSE + client_salt.encode(), sha256).hexdigest()[:32]
