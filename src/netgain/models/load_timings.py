"""Where the time of making a model ready goes. No torch."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum


class LoadPart(StrEnum):
    """Parts of the pipeline, in order."""

    READ = "read"
    CONVERT = "convert"
    ALLOCATE = "allocate"
    WARM_UP = "warm up"


class LoadTimings:
    """Seconds of wall time per part; the owner of the engine adds the parts after loading."""

    def __init__(self) -> None:
        self._seconds: dict[LoadPart, float] = {}

    def add(self, part: LoadPart, seconds: float) -> None:
        """Counts `seconds` towards `part`."""
        self._seconds[part] = self._seconds.get(part, 0.0) + seconds

    @contextmanager
    def measure(self, part: LoadPart) -> Iterator[None]:
        """Counts the time inside the block, also when it raises."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.add(part, time.perf_counter() - start)

    @property
    def seconds(self) -> Mapping[LoadPart, float]:
        """Parts measured so far, in the order of the pipeline."""
        return {part: self._seconds[part] for part in LoadPart if part in self._seconds}

    @property
    def total_s(self) -> float:
        """Sum of all parts."""
        return sum(self._seconds.values())
