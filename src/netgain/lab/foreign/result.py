"""What another tool would have printed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from netgain.report.document import Cell, Section, Table


class Tool(StrEnum):
    """A load generator whose definitions are known."""

    VLLM = "vllm"
    GUIDELLM = "guidellm"
    AIPERF = "aiperf"


@dataclass(frozen=True, slots=True)
class ForeignResult:
    """A tool's numbers of a run, over the whole run unless the tool itself trims.

    `values` has the tool's own keys and units; a key without a value stands in `missing` with the
    reason. `definitions` says what the tool's words mean where they differ from netgain's.
    """

    tool: Tool
    title: str
    source: str
    values: Mapping[str, float | None]
    tables: tuple[Table, ...]
    definitions: tuple[str, ...]
    missing: Mapping[str, str] = field(default_factory=dict)

    def section(self) -> Section:
        """For a report."""
        absent = tuple(f"{key}: not derived. {reason}" for key, reason in self.missing.items())
        return Section(
            heading=f"As {self.tool.value} defines it",
            text=(f"Definitions as in {self.source}.", *self.definitions, *absent),
            tables=self.tables,
        )


def cell(value: float | None) -> Cell:
    """A table's cell; whole numbers without a fraction."""
    if value is None:
        return None
    return int(value) if float(value).is_integer() and abs(value) < 1e15 else float(value)
