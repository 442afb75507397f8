"""Who may ask."""

import hmac
from hashlib import sha256

from starlette.requests import Request

from netgain.server.errors import unauthorized


class ApiKey:
    """Lets requests in that bring the key, or all of them where there is none."""

    def __init__(self, key: str | None) -> None:
        self._digest = None if key is None else sha256(key.encode()).digest()

    async def authorize(self, request: Request) -> None:
        """Raises `ApiError` (401) for a wrong or missing key.

        Digests are compared, in constant time: how long it takes tells neither how much of a key
        was right nor how long it is.
        """
        if self._digest is None:
            return
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        # Header values arrive as latin-1; these are the bytes that were sent.
        digest = sha256(given.strip().encode("latin-1")).digest()
        if not hmac.compare_digest(digest, self._digest) or scheme.lower() != "bearer":
            raise unauthorized()
