"""netgain serves large language models and accounts for every handoff."""

from typing import TYPE_CHECKING, Any

from netgain._version import __version__

if TYPE_CHECKING:
    from netgain.engine.llm import LLM as LLM
    from netgain.engine.sampling_params import SamplingParams as SamplingParams

__all__ = ["LLM", "SamplingParams", "__version__"]

_LAZY = {
    "LLM": "netgain.engine.llm",
    "SamplingParams": "netgain.engine.sampling_params",
}


def __getattr__(name: str) -> Any:
    """Imports the public classes on first use, so that importing a leaf room stays cheap."""
    if name not in _LAZY:
        raise AttributeError(f"module 'netgain' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_LAZY[name]), name)
