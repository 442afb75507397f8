"""What may stand in a request's headers."""

import re
from typing import Final

from netgain.errors import ConfigurationError

_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r"[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?")


def check_header(name: str, value: str) -> None:
    """Raises `ConfigurationError` for what would break the request, or be another header in it."""
    if not _NAME.fullmatch(name):
        raise ConfigurationError(f"{name!r} is no name of an HTTP header")
    if value and not _VALUE.fullmatch(value):
        raise ConfigurationError(
            f"the value of the header {name} holds a line end or a character that is not ASCII"
        )


def check_api_key(key: str) -> None:
    """Raises `ConfigurationError`, without the key in it."""
    if not _VALUE.fullmatch(key):
        raise ConfigurationError(
            "the API key is empty, or holds a line end, a space around it or a character that is "
            "not ASCII: look how it got into --api-key or the environment"
        )
