"""How long weights take to load, by where they lie: ranges for a plausibility check."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class LoadRange:
    """Slowest and fastest bytes/s that one stage of loading is seen at."""

    stage: str
    slowest_bytes_s: float
    fastest_bytes_s: float

    def seconds(self, size_bytes: float) -> tuple[float, float]:
        """(fastest, slowest) seconds for this many bytes."""
        return size_bytes / self.fastest_bytes_s, size_bytes / self.slowest_bytes_s


LOAD_RANGES: Final = (
    LoadRange("solid-state disk", 0.5e9, 14e9),
    LoadRange("host memory", 50e9, 200e9),
    LoadRange("device memory", 300e9, 8e12),
)
