"""netgain beside llama.cpp, OpenVINO, vLLM and transformers, alternately, on the same token ids.

    python -m benchmarks.peers [--quick] [--rounds 5] [--rows prefill-512,http]
        [--peers vllm,netgain] [--isa avx2] [--netgain-args '{"kv_dtype": "fp16"}']
        [--peer-args 'vllm={"dtype": "float32"}'] [--json FILE|-]

Every engine runs in its own environment and process; only the one whose turn it is runs, all
others are stopped. Figures are medians of the rounds. docs/benchmarks.md says what each row is.
"""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks.peers.contest import Contest
from benchmarks.peers.peers import Model, all_peers, all_servers
from benchmarks.peers.processor import Processor
from benchmarks.peers.results import NETGAIN, Results
from benchmarks.peers.workloads import ENGINE_WORKLOADS, QUICK
from benchmarks.report import show, write
from netgain.hardware.host import usable_cores
from netgain.models.store import DEFAULT_MODEL, ensure

_ROWS = ("start", *(workload.name for workload in ENGINE_WORKLOADS), "http")
_QUIET_CORES: Final = 0.1


def main() -> None:
    """Runs and prints."""
    arguments = _arguments()
    model = Model(ensure(arguments.model).resolve(), arguments.threads)
    contest = Contest(model, arguments.options, arguments.rows, arguments.rounds)
    chosen = [peer for peer in all_peers(arguments.isa) if peer.options_name in arguments.peers]
    servers = [peer for peer in all_servers(arguments.isa) if peer.options_name in arguments.peers]
    if "start" in arguments.rows:
        contest.start_and_memory(chosen)
    contest.alternate(chosen)
    if "http" in arguments.rows:
        contest.alternate(servers)
    columns = list(dict.fromkeys(peer.column for peer in chosen + servers))
    show_results(contest.results, columns)
    warn_of_neighbours(contest)
    write(
        arguments.json,
        contest.results.json_rows(),
        extra={
            "rounds": arguments.rounds,
            "isa": arguments.isa,
            "engines": contest.about,
            "others_cores": contest.others_cores,
            "turns": contest.turns,
            "failures": [
                {"peer": failure.peer, "doing": failure.doing, "reason": failure.reason}
                for failure in contest.results.failed
            ],
        },
    )


def show_results(results: Results, columns: Sequence[str]) -> None:
    """Prints the table and, below it, who failed and why."""
    show("Medians; ratio: netgain to the best peer, above 1 is better", results.table(columns))
    for failure in results.failed:
        print(f"{failure.peer}, {failure.doing}: {failure.reason}")


def warn_of_neighbours(contest: Contest) -> None:
    """Says so when others used this machine meanwhile."""
    if contest.others_cores > _QUIET_CORES:
        print(
            f"NOT QUIET: other processes kept {contest.others_cores:.2f} cores busy in the median "
            "turn; some engines collapse when a neighbour takes a core. Do not compare these."
        )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = tuple(dict.fromkeys(peer.options_name for peer in all_peers(Processor.NATIVE)))
    parser.add_argument("--quick", action="store_true", help="one round of " + ", ".join(QUICK))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=_names(_ROWS), default=None, help=", ".join(_ROWS))
    parser.add_argument("--peers", type=_names(names), default=names, help=", ".join(names))
    parser.add_argument(
        "--isa",
        type=Processor,
        choices=tuple(Processor),
        default=Processor.NATIVE,
        help="avx2: everybody without AVX-512 and AMX, as on most machines of two cores",
    )
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--threads", type=int, default=usable_cores())
    parser.add_argument("--netgain-args", type=_options, default={}, metavar="JSON")
    parser.add_argument(
        "--peer-args", type=_peer_options, action="append", default=[], metavar="PEER=JSON"
    )
    parser.add_argument("--json", type=Path, default=None)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds = 1
    if arguments.rows is None:
        arguments.rows = QUICK if arguments.quick else _ROWS
    arguments.options = {NETGAIN: arguments.netgain_args} | dict(arguments.peer_args)
    return arguments


def _names(known: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    def parse(text: str) -> tuple[str, ...]:
        names = tuple(name.strip() for name in text.split(","))
        unknown = [name for name in names if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: not one of {', '.join(known)}")
        return names

    return parse


def _options(text: str) -> Mapping[str, object]:
    try:
        options = json.loads(text)
    except json.JSONDecodeError as error:
        raise argparse.ArgumentTypeError(f"not JSON: {error}") from error
    if not isinstance(options, dict):
        raise argparse.ArgumentTypeError("not a JSON object of keyword arguments")
    return options


def _peer_options(text: str) -> tuple[str, Mapping[str, object]]:
    name, _, options = text.partition("=")
    return name, _options(options)


if __name__ == "__main__":
    main()
