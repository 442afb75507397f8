"""Chooses a tool's definitions by its name."""

from collections.abc import Sequence

from netgain.lab.foreign.aiperf import as_aiperf
from netgain.lab.foreign.guidellm import as_guidellm
from netgain.lab.foreign.result import ForeignResult, Tool
from netgain.lab.foreign.vllm import as_vllm
from netgain.lab.record import RequestRecord
from netgain.lab.run_header import RunHeader
from netgain.lab.slo import ServiceLevel


def as_tool(
    tool: Tool,
    header: RunHeader,
    records: Sequence[RequestRecord],
    slo: ServiceLevel | None = None,
) -> ForeignResult:
    """The run as `tool` would report it."""
    match tool:
        case Tool.VLLM:
            return as_vllm(header, records, slo)
        case Tool.GUIDELLM:
            return as_guidellm(header, records, slo)
        case Tool.AIPERF:
            return as_aiperf(header, records, slo)
