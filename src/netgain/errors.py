"""The errors netgain raises on purpose; everything else is a bug.

Each message says what is wrong and what to do about it.
"""

from collections.abc import Sequence


class NetgainError(Exception):
    """Base of every error that netgain raises on purpose."""


class ConfigurationError(NetgainError):
    """A setting, or a combination of settings, that cannot work."""


class CapacityError(ConfigurationError):
    """A configuration that does not fit in memory.

    `shortfall_bytes` is how much is missing, `ways_out` the cheapest changes that would fit.
    """

    def __init__(self, what: str, shortfall_bytes: int, ways_out: Sequence[str]) -> None:
        self.shortfall_bytes = shortfall_bytes
        self.ways_out = tuple(ways_out)
        choices = "".join(f"\n  - {way}" for way in self.ways_out)
        super().__init__(f"{what}: short by {shortfall_bytes:,} bytes. Ways out:{choices}")


class ModelError(NetgainError):
    """A model that cannot be found, fetched, read or understood."""


class InvalidRequestError(NetgainError):
    """A request that no engine should see; `param` names the field at fault, if one is."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class EngineDeadError(NetgainError):
    """The engine process ended while it held requests."""
