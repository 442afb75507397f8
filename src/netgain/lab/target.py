"""The server that is measured: where it is, what it serves, which fields it takes."""

from enum import StrEnum
from urllib.parse import urlsplit

import msgspec

from netgain.errors import NetgainError
from netgain.lab.conversation import NO_FIELDS


class TargetError(NetgainError):
    """A target that cannot be measured; the message says why and what to do."""


class UnreachableError(TargetError):
    """Nobody answers there."""


class UntrustedError(TargetError):
    """No trusted TLS connection can be made."""


class WrongPathError(TargetError):
    """Somebody answers there, but not the API."""


class WrongModelError(TargetError):
    """The model is not among those served."""


class UnauthorizedError(TargetError):
    """The API key is missing or wrong."""


class Api(StrEnum):
    """Which of OpenAI's interfaces is asked."""

    CHAT = "chat"
    COMPLETIONS = "completions"

    @property
    def path(self) -> str:
        """Below the base URL."""
        return "/v1/chat/completions" if self is Api.CHAT else "/v1/completions"


class Endpoint(msgspec.Struct, frozen=True):
    """Where the server listens. `prefix` is what stands before `/v1`."""

    host: str
    port: int
    tls: bool = False
    prefix: str = ""

    @property
    def url(self) -> str:
        """As a base URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}{self.prefix}"


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """Which optional fields the server takes, as `find_target` finds out by asking.

    `usage`: `stream_options.include_usage`. `running_usage`: vLLM's `continuous_usage_stats` there.
    `exact_length`: `ignore_eos` and `min_tokens`. `ledger`: netgain's own. `limit_field` bounds an
    answer's tokens.
    """

    usage: bool = True
    running_usage: bool = False
    exact_length: bool = True
    ledger: bool = False
    limit_field: str = "max_tokens"


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """One model on one server, and how it is asked.

    `fields`, a JSON object, go into every request's body, over what netgain puts there. A request
    that takes longer than `timeout_s`, a connection longer than `connect_timeout_s`, has failed.
    """

    endpoint: Endpoint
    model: str
    api: Api = Api.CHAT
    api_key: str | None = None
    headers: dict[str, str] = {}
    fields: msgspec.Raw = NO_FIELDS
    stream: bool = True
    timeout_s: float = 600.0
    connect_timeout_s: float = 10.0
    dialect: Dialect = Dialect()


def parse_url(url: str) -> Endpoint:
    """A base URL, with or without `/v1` at its end. Raises `WrongPathError`."""
    text = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise WrongPathError(f"{url!r} is no URL ({error}): give http://HOST:PORT") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise WrongPathError(f"{url!r} is no http URL: give http://HOST:PORT")
    if not text.isascii() or any(character.isspace() for character in text):
        raise WrongPathError(f"{url!r} holds what no URL may: write it in ASCII, without spaces")
    if parts.query or parts.fragment or parts.username:
        raise WrongPathError(f"{url!r} holds more than an address: give http://HOST:PORT")
    prefix = parts.path.rstrip("/")
    for api in Api:
        prefix = prefix.removesuffix(api.path)
    tls = parts.scheme == "https"
    if port is None:
        port = 443 if tls else 80
    return Endpoint(parts.hostname, port, tls, prefix.removesuffix("/v1"))
