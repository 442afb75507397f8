"""From a user's choices to a backend. Only the one chosen is imported."""

import os

from netgain.errors import ConfigurationError
from netgain.ops.backend import Backend
from netgain.ops.choices import BackendName, KVFormat, Numerics, WeightFormat


def make_backend(
    name: BackendName,
    threads: int,
    weights: WeightFormat = WeightFormat.AUTO,
    kv_format: KVFormat = KVFormat.AUTO,
    numerics: Numerics = Numerics.AUTO,
) -> Backend:
    """The backend, ready to take weights in.

    Raises `ConfigurationError` for what is not there or cannot be combined.
    """
    match name:
        case BackendName.NATIVE:
            raise ConfigurationError(
                "--backend native: the kernels are not part of this installation; "
                "use --backend torch"
            )
        case BackendName.AUTO | BackendName.TORCH:
            return _torch(threads, weights, kv_format, numerics)


def _torch(threads: int, weights: WeightFormat, kv_format: KVFormat, numerics: Numerics) -> Backend:
    # Waiting threads sleep: spinning is a fifth faster on a quiet machine and takes twice as long
    # where a neighbour wants a core. libgomp reads this once, when torch loads it. See
    # docs/decisions/threads.md.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from netgain.ops.torch_backend import TorchBackend

    return TorchBackend(threads, weights, kv_format, numerics)
