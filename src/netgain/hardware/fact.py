"""A number about hardware, and how far to trust it."""

from dataclasses import dataclass
from enum import StrEnum

from netgain.report.document import Basis


class Confidence(StrEnum):
    """How a number came into the catalogue."""

    MEASURED = "measured"
    """Measured on the device it describes, by `netgain probe` or by the user."""
    READ = "read"
    """Read at the source named beside it."""
    DERIVED = "derived"
    """Arithmetic on values that were read."""
    MEMORY = "memory"
    """Remembered, not checked at a source: low confidence."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A value in SI units (bytes, bytes/s, FLOP/s, W, s), its source, and a note on conflicts."""

    value: float
    source: str
    confidence: Confidence = Confidence.READ
    note: str = ""

    @property
    def basis(self) -> Basis:
        """What a figure that uses this number as it stands is."""
        return Basis.MEASURED if self.confidence is Confidence.MEASURED else Basis.ASSUMED

    @property
    def cited(self) -> str:
        """The source, with a warning where nobody checked it."""
        doubt = " (from memory, unchecked)" if self.confidence is Confidence.MEMORY else ""
        return f"{self.source}{doubt}"
