"""netgain's load generator beside `vllm bench serve` and `guidellm`, on the same scripted server.

    python -m benchmarks.load_tools [--requests 200] [--rate 20] [--rounds 3]
        [--tools vllm,guidellm] [--json FILE|-]

Every round each tool sends the same requests at the same constant rate, in its own environment, one
after the other, and netgain sends them too. netgain's records are then read by each tool's
definitions (`netgain bench --as`) and compared with what the tool itself printed. Exit code 1 where
a common metric differs by more than 2 %, or a tool could not run. docs/benchmarks.md says more.
"""

import argparse
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.load_tools.comparison import Comparison, compare
from benchmarks.load_tools.own import own_run
from benchmarks.load_tools.tools import ALL, LoadTool, version_of
from benchmarks.load_tools.traffic import MODEL, Files, Traffic, write_files
from benchmarks.peers.environment import peers_folder
from benchmarks.peers.failure import PeerError
from benchmarks.peers.server_process import ServerProcess
from benchmarks.report import write
from netgain.lab.foreign.result import Tool
from netgain.lab.foreign.tools import as_tool
from netgain.report.document import Report, Section
from netgain.report.terminal import print_report

_LEFT_OUT: Final[Mapping[Tool, Mapping[str, str]]] = {
    Tool.VLLM: {
        "max_concurrent_requests": (
            "vLLM 0.32 counts the requests that touch the fullest second; later versions, which "
            "netgain follows, those under way at one moment"
        ),
    },
}
"""By tool: what has another meaning in the version measured here, and why."""


@dataclass(slots=True)
class Rounds:
    """What every round brought."""

    theirs: dict[Tool, list[dict[str, float]]] = field(default_factory=dict)
    ours: dict[Tool, list[Mapping[str, float | None]]] = field(default_factory=dict)
    failures: dict[Tool, str] = field(default_factory=dict)


def main() -> None:
    """Runs and prints."""
    arguments = _arguments()
    traffic = Traffic(arguments.requests, arguments.rate)
    chosen = [tool for tool in ALL if tool.tool in arguments.tools]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = write_files(traffic, folder)
        rounds = _run(chosen, arguments.rounds, traffic, files, folder)
    comparisons = [
        compare(
            tool.tool,
            version_of(tool),
            rounds.theirs[tool.tool],
            rounds.ours[tool.tool],
            _LEFT_OUT.get(tool.tool, {}),
        )
        for tool in chosen
        if tool.tool not in rounds.failures
    ]
    report = _report(traffic, arguments.rounds, comparisons, rounds.failures)
    print_report(report)
    write(
        arguments.json,
        [
            {
                "tool": comparison.tool,
                "version": comparison.version,
                "metric": row.metric,
                "theirs": row.theirs,
                "netgain": row.ours,
                "difference": row.difference,
            }
            for comparison in comparisons
            for row in comparison.rows
        ],
        extra={
            "requests": traffic.requests,
            "rate": traffic.rate,
            "rounds": arguments.rounds,
            "verdict": list(report.verdict),
            "left_out": {c.tool: dict(c.left_out) for c in comparisons},
            "failures": {str(tool): reason for tool, reason in rounds.failures.items()},
        },
    )
    if rounds.failures or not all(comparison.agrees for comparison in comparisons):
        sys.exit(1)


def _run(
    chosen: list[LoadTool], count: int, traffic: Traffic, files: Files, folder: Path
) -> Rounds:
    rounds = Rounds()
    for tool in chosen:
        try:
            tool.python()
        except PeerError as error:
            rounds.failures[tool.tool] = str(error)
    log = peers_folder() / "logs" / "scripted-server.log"
    server = ServerProcess(
        [sys.executable, "-m", "netgain.lab.scripted_server", "--scripts", str(files.scripts)],
        {},
        log,
        "/v1/models",
        MODEL,
    )
    try:
        for index in range(count):
            for tool in chosen:
                if tool.tool not in rounds.failures:
                    _one(tool, index, server.url, traffic, files, folder, rounds)
    finally:
        server.close()
    return rounds


def _one(
    tool: LoadTool,
    index: int,
    url: str,
    traffic: Traffic,
    files: Files,
    folder: Path,
    rounds: Rounds,
) -> None:
    print(f"round {index + 1}: {tool.tool}, netgain", file=sys.stderr)
    try:
        theirs = tool.run(url, traffic, files, folder)
    except PeerError as error:
        rounds.failures[tool.tool] = str(error)
        return
    # netgain sends anew beside each tool, so that both meet the same moment of the machine.
    header, records = own_run(url, traffic)
    rounds.theirs.setdefault(tool.tool, []).append(theirs)
    rounds.ours.setdefault(tool.tool, []).append(as_tool(tool.tool, header, records).values)


def _report(
    traffic: Traffic, rounds: int, comparisons: list[Comparison], failures: Mapping[Tool, str]
) -> Report:
    verdict = [
        f"{c.tool}: {sum(row.agrees for row in c.rows)} of {len(c.rows)} common metrics agree; "
        f"the largest difference is {c.worst.difference:+.2%} ({c.worst.metric})."
        for c in comparisons
    ]
    sections = tuple(
        Section(
            f"{c.tool} {c.version}",
            tables=(c.table(),),
            text=tuple(f"Left out: {key}. {why}." for key, why in c.left_out.items()),
        )
        for c in comparisons
    )
    return Report(
        "Load tools on one scripted server",
        sections,
        tuple(verdict),
        tuple(f"{tool} did not run: {reason}" for tool, reason in failures.items()),
        {"requests": traffic.requests, "rate": f"{traffic.rate:g}/s", "rounds (medians)": rounds},
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.load_tools",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--rate", type=float, default=20.0, help="requests per second")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--tools",
        type=lambda text: [Tool(name) for name in text.split(",")],
        default=[tool.tool for tool in ALL],
        help="comma-separated (default: all)",
    )
    parser.add_argument("--json", type=Path, help="write the figures; - prints them")
    return parser.parse_args()


if __name__ == "__main__":
    main()
