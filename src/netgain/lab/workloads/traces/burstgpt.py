"""The BurstGPT traces (github.com/HPMLL/BurstGPT).

    Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
    5,ChatGPT,472,18,490,Conversation log

Timestamps are seconds. Failed requests have 0 response tokens. Later releases add `Session ID` and
`Elapsed time`, which are not used.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from netgain.lab.workloads.traces.lengths_trace import LengthsRow, LengthsTrace
from netgain.lab.workloads.traces.trace_file import Rows, read_csv, token_count

_COLUMNS: Final = (
    "Timestamp",
    "Model",
    "Request tokens",
    "Response tokens",
    "Total tokens",
    "Log Type",
)


@dataclass(frozen=True)
class BurstGPTTrace(LengthsTrace):
    """Arrival times and token counts; a request's class is the first word of its log type."""

    name = "burstgpt"
    about = "BurstGPT trace (CSV): arrival times and lengths, conversations and API calls"

    def _read(self) -> Rows[LengthsRow]:
        return read_csv(self.path, _COLUMNS, _row, skip_bad_lines=self.skip_bad_lines)


def _row(cells: Mapping[str, str]) -> LengthsRow:
    when = cells["Timestamp"]
    try:
        at_s = float(when)
    except ValueError:
        at_s = math.nan
    if not math.isfinite(at_s):
        raise ValueError(f"Timestamp is {when!r}, not a number of seconds")
    prompt = token_count("Request tokens", cells["Request tokens"])
    answer = token_count("Response tokens", cells["Response tokens"])
    total = token_count("Total tokens", cells["Total tokens"])
    if total != prompt + answer:
        raise ValueError(
            f"Total tokens is {total}, but request and response tokens add up to {prompt + answer}"
        )
    words = cells["Log Type"].split()
    if not words:
        raise ValueError("Log Type is empty")
    return LengthsRow(at_s, prompt, answer, words[0].casefold())
