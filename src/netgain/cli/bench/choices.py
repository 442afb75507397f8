"""Texts of options that name one of a few."""

from typing import TYPE_CHECKING

from netgain.errors import ConfigurationError

if TYPE_CHECKING:
    from netgain.lab.foreign.result import Tool
    from netgain.lab.metrics.trimming import TrimRule
    from netgain.lab.run_header import CacheState


def tool_of(name: str | None) -> "Tool | None":
    """`--as`. Raises `ConfigurationError`."""
    from netgain.lab.foreign.result import Tool

    if name is None:
        return None
    try:
        return Tool(name)
    except ValueError:
        known = ", ".join(tool.value for tool in Tool)
        raise ConfigurationError(f"--as {name}: choose {known}") from None


def cache_of(name: str) -> "CacheState":
    """`--cache`. Raises `ConfigurationError`."""
    from netgain.lab.run_header import CacheState

    try:
        return CacheState(name)
    except ValueError:
        known = ", ".join(state.value for state in CacheState)
        raise ConfigurationError(f"--cache {name}: choose {known}") from None


def trim_of(warmup: str, cooldown: str) -> "TrimRule":
    """`--warmup` and `--cooldown`. Raises `ConfigurationError`."""
    from netgain.lab.metrics.trimming import Trim, TrimRule

    return TrimRule(Trim.parse(warmup), Trim.parse(cooldown))
