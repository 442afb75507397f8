"""The Azure LLM inference traces of 2023 and 2024 (github.com/Azure/AzurePublicDataset).

    TIMESTAMP,ContextTokens,GeneratedTokens
    2023-11-16 18:15:46.6805900,374,44

The traces of 2024 add a time zone to the timestamp; without one it is taken as UTC.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from netgain.lab.workloads.traces.lengths_trace import LengthsRow, LengthsTrace
from netgain.lab.workloads.traces.trace_file import Rows, read_csv, token_count

_COLUMNS: Final = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")


@dataclass(frozen=True)
class AzureTrace(LengthsTrace):
    """Arrival times and token counts."""

    name = "azure"
    about = "Azure LLM inference trace (CSV): arrival times and lengths"

    def _read(self) -> Rows[LengthsRow]:
        return read_csv(self.path, _COLUMNS, _row, skip_bad_lines=self.skip_bad_lines)


def _row(cells: Mapping[str, str]) -> LengthsRow:
    when = cells["TIMESTAMP"]
    try:
        moment = datetime.fromisoformat(when)
    except ValueError:
        raise ValueError(
            f"TIMESTAMP is {when!r}, not a time like 2023-11-16 18:15:46.6805900"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return LengthsRow(
        at_s=moment.timestamp(),
        prompt_tokens=token_count("ContextTokens", cells["ContextTokens"]),
        answer_tokens=token_count("GeneratedTokens", cells["GeneratedTokens"]),
        request_class="azure",
    )
