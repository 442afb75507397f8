"""What `bench kv` and `bench ttft` share: the server they ask, and the run of their arms."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from netgain.cli.bench import options

if TYPE_CHECKING:
    from netgain.lab.bench import Bench, OnProgress
    from netgain.lab.workloads.experiments.plan import Arm, ArmResult, Experiment
    from netgain.report.document import Cell, Report

    Reporter = Callable[["Experiment", Sequence["ArmResult"], Mapping[str, Cell]], Report]


_GREEDY = '{"temperature": 0}'
"""Arms with equal prompts are compared by their answers, which chance must not change."""


@dataclass(frozen=True, slots=True)
class Server:
    """The server that is asked: a given one, or netgain's own with a model."""

    url: str | None
    model: str
    tokenizer: str | None

    def bench(self, flags: tuple[str, ...]) -> AbstractContextManager["Bench"]:
        """A bench of it; its own server is started with `flags`, and ends with the block."""
        return self._bench(flags)

    @contextmanager
    def _bench(self, flags: tuple[str, ...]) -> "Iterator[Bench]":
        if self.url is not None:
            with closing(self._asking(self.url)) as bench:
                yield bench
            return
        from netgain.lab.own_server import own_server

        with own_server(self.model, flags) as url, closing(self._asking(url)) as bench:
            yield bench

    def _asking(self, url: str) -> "Bench":
        target = options.find(
            url,
            model=None,
            api="chat",
            api_key=None,
            headers=None,
            body=_GREEDY,
            timeout_s=600.0,
        )
        return options.bench_of(target, self.tokenizer)


def run_and_show(
    experiment: "Experiment",
    reporter: "Reporter",
    server: Server,
    *,
    seed: int,
    as_json: bool,
    html: Path | None,
    plot: bool,
) -> None:
    """Runs every arm that can be run, then shows the report; exits with 1 where one failed."""
    from netgain.cli.bench.interrupt import terminated_as_interrupted
    from netgain.cli.bench.live import LiveLine
    from netgain.cli.bench.show import check_places, show
    from netgain.lab.experiment_run import run_experiment

    check_places(html)
    if server.url is not None:
        experiment = experiment.on_given_server()
    results: list[ArmResult] = []
    with LiveLine() as line, terminated_as_interrupted():

        def announce(arm: "Arm") -> "OnProgress":
            line.label = arm.title
            return line.show

        results.extend(run_experiment(experiment, server.bench, seed, announce))
    context: dict[str, Cell] = {
        "server": server.url or f"netgain serve --model {server.model}",
        "seed": seed,
        "command": options.command(),
    }
    show(reporter(experiment, results, context), as_json=as_json, html=html, plot=plot)
    if len(results) < len(experiment.runnable):
        raise typer.Exit(1)
