"""Where the time of loading weights goes. No torch."""

from collections.abc import Mapping
from enum import StrEnum


class WeightPart(StrEnum):
    """Parts of loading weights, in order."""

    READ = "read"
    CONVERT = "convert"


class LoadTimings:
    """Seconds of wall time per part; the owner of the engine times what comes after."""

    def __init__(self) -> None:
        self._seconds: dict[WeightPart, float] = {}

    def add(self, part: WeightPart, seconds: float) -> None:
        """Counts `seconds` towards `part`."""
        self._seconds[part] = self._seconds.get(part, 0.0) + seconds

    @property
    def seconds(self) -> Mapping[WeightPart, float]:
        """Parts measured so far, in order."""
        return {part: self._seconds[part] for part in WeightPart if part in self._seconds}
