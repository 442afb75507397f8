"""Workloads by name, as `--workload` takes them."""

import dataclasses
from pathlib import Path
from typing import Final

from netgain.lab.workloads.code_completion import CodeCompletion
from netgain.lab.workloads.copying import Copying
from netgain.lab.workloads.dialogue import Dialogue
from netgain.lab.workloads.documents import DocumentQuestions
from netgain.lab.workloads.lengths_only import LengthsOnly
from netgain.lab.workloads.mix import Mix, mix_of_file, mix_of_weights
from netgain.lab.workloads.parameters import Parameterised, nearest, split_settings
from netgain.lab.workloads.presets import Agent, Chat, Summarise
from netgain.lab.workloads.retrieval import Retrieval
from netgain.lab.workloads.shared_prefix import SharedPrefix
from netgain.lab.workloads.traces.azure import AzureTrace
from netgain.lab.workloads.traces.burstgpt import BurstGPTTrace
from netgain.lab.workloads.traces.kind_of_file import TraceKind, kind_of_file
from netgain.lab.workloads.traces.mooncake import MooncakeTrace
from netgain.lab.workloads.traces.own import OwnTrace
from netgain.lab.workloads.traces.sharegpt import ShareGPT
from netgain.lab.workloads.traces.trace_file import TraceWorkload
from netgain.lab.workloads.workload import Workload, WorkloadError

SYNTHETIC: Final[dict[str, type[Parameterised]]] = {
    kind.name: kind
    for kind in (
        LengthsOnly,
        SharedPrefix,
        Copying,
        DocumentQuestions,
        Dialogue,
        Chat,
        Retrieval,
        Summarise,
        CodeCompletion,
        Agent,
    )
}
"""Made traffic, presets included."""

TRACES: Final[dict[TraceKind, type[TraceWorkload]]] = {
    TraceKind.SHAREGPT: ShareGPT,
    TraceKind.MOONCAKE: MooncakeTrace,
    TraceKind.AZURE: AzureTrace,
    TraceKind.BURSTGPT: BurstGPTTrace,
    TraceKind.OWN: OwnTrace,
}
"""Recorded traffic, from files."""

_MIX: Final = "mix"
_MIX_SUFFIXES: Final = frozenset({".yaml", ".yml"})


def workload_names() -> list[str]:
    """All names `--workload` knows, in the order to show them."""
    return [*SYNTHETIC, _MIX, *TRACES]


def parse_workload(text: str, *, skip_bad_lines: bool = False) -> Workload:
    """`NAME`, `NAME:key=value,...`, `NAME:PATH` for traces, `mix:chat=0.7,rag=0.3`, or a path.

    A bare path is a mix (.yaml, .yml) or a trace, whose format is told from its beginning.
    `skip_bad_lines`: broken lines of a trace are counted and left out. Raises `WorkloadError` for
    what is misspelt, with the nearest known name, and `TraceError` for a broken trace.
    """
    name, _, settings = text.strip().partition(":")
    if name == _MIX:
        return _mix(settings)
    if name in SYNTHETIC:
        return SYNTHETIC[name].parse(settings)
    if name in TRACES:
        return _trace(TraceKind(name), settings, skip_bad_lines)
    path = Path(text).expanduser()
    if not path.is_file():
        raise WorkloadError(
            f"unknown workload {name!r}, and no file of that name{nearest(name, workload_names())}"
        )
    if path.suffix in _MIX_SUFFIXES:
        return mix_of_file(path, parse_workload)
    return _trace(kind_of_file(path), str(path), skip_bad_lines)


def _mix(settings: str) -> Mix:
    """`chat=0.7,rag=0.3`, or a file."""
    path = Path(settings.removeprefix("path=")).expanduser()
    if settings and path.is_file():
        return mix_of_file(path, parse_workload)
    if "=" not in settings:
        raise WorkloadError(
            "workload mix: write mix:chat=0.7,rag=0.3, or mix:FILE with a YAML or JSON file"
            + (f" ({settings}: no such file)" if settings else "")
        )
    return mix_of_weights(list(split_settings(_MIX, settings).items()), parse_workload)


def _trace(kind: TraceKind, settings: str, skip_bad_lines: bool) -> TraceWorkload:
    trace = TRACES[kind].parse(settings)
    if skip_bad_lines:
        trace = dataclasses.replace(trace, skip_bad_lines=True)
    trace.check()
    return trace
