"""The engine: token ids in, token ids out."""

import os

# Read by OpenMP when torch is first imported. Waiting threads sleep instead of spinning: a little
# slower on a quiet machine, twice as fast where another process wants a core
# (docs/decisions/threads.md).
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
