"""Python imports this at its start when this folder is on PYTHONPATH: torch then reports AVX2.

vLLM chooses its library and its attention kernels by what torch says of the processor, and has no
setting for it; its child processes ask again, so every interpreter has to be told.
"""

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Final

_BEYOND_AVX2: Final = (
    "_is_avx512_supported",
    "_is_avx512_bf16_supported",
    "_is_vnni_supported",
    "_is_amx_tile_supported",
    "_is_amx_fp16_supported",
)


class _Hook(MetaPathFinder):
    """Patches `torch.cpu` once it is loaded."""

    def find_spec(
        self, name: str, path: object = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module's own place, with a loader that patches it afterwards."""
        if name != "torch.cpu":
            return None
        spec = PathFinder.find_spec(name, path, target)  # type: ignore[arg-type]
        if spec is not None and spec.loader is not None:
            spec.loader = _Patching(spec.loader)
        return spec


class _Patching(Loader):
    """A loader around another one."""

    def __init__(self, inner: Loader) -> None:
        self._inner = inner

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the inner loader does."""
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Runs it, then answers no to everything beyond AVX2."""
        self._inner.exec_module(module)
        for name in _BEYOND_AVX2:
            if hasattr(module, name):
                setattr(module, name, lambda: False)


sys.meta_path.insert(0, _Hook())
