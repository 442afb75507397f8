"""From a user's choices to a backend. Only the one chosen is imported."""

import logging
import os
from pathlib import Path
from typing import Final

from netgain.errors import ConfigurationError
from netgain.ops.backend import Backend
from netgain.ops.choices import BackendName, KVFormat, Numerics, WeightFormat

_log: Final = logging.getLogger(__name__)


def make_backend(
    name: BackendName,
    threads: int,
    weights: WeightFormat = WeightFormat.AUTO,
    kv_format: KVFormat = KVFormat.AUTO,
    numerics: Numerics = Numerics.AUTO,
    *,
    pinned: bool = False,
    native_folder: Path | None = None,
) -> Backend:
    """The backend, ready to take weights in. `auto` is native where its library is there.

    With `pinned`, threads keep to a core each, where a backend can do that. `native_folder`: where
    to look for the native library instead of beside its sources. Raises `ConfigurationError` for
    what is not there or cannot be combined.
    """
    if name is BackendName.TORCH:
        return _torch(threads, weights, kv_format, numerics)
    from netgain.ops.cpu.library import Unavailable, load

    library = load(native_folder) if native_folder else load()
    if isinstance(library, Unavailable):
        if name is BackendName.NATIVE:
            raise ConfigurationError(f"--backend native: {library.reason}; or use --backend torch")
        _log.warning("slower without native kernels: %s", library.reason)
        return _torch(threads, weights, kv_format, numerics)
    from netgain.ops.cpu.backend import NativeBackend

    return NativeBackend(library, threads, weights, kv_format, numerics, pinned=pinned)


def native_is_there() -> bool:
    """Whether `auto` would be native."""
    from netgain.ops.cpu.library import Unavailable, load

    return not isinstance(load(), Unavailable)


def _torch(threads: int, weights: WeightFormat, kv_format: KVFormat, numerics: Numerics) -> Backend:
    # Waiting threads sleep: spinning is a fifth faster on a quiet machine and takes twice as long
    # where a neighbour wants a core. libgomp reads this once, when torch loads it. See
    # docs/decisions/threads.md.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from netgain.ops.torch_backend import TorchBackend

    return TorchBackend(threads, weights, kv_format, numerics)
