"""`netgain bench URL`."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from netgain.cli.bench import options
from netgain.errors import ConfigurationError, NetgainError

if TYPE_CHECKING:
    from netgain.lab.bench import Bench, BenchRun, RunPlan
    from netgain.lab.foreign.result import Tool
    from netgain.lab.load_plan import Load
    from netgain.lab.metrics.trimming import TrimRule
    from netgain.lab.run_header import CacheState
    from netgain.lab.slo import ServiceLevel
    from netgain.lab.workloads.workload import Workload

_DURATION_S = 30.0


def run(
    url: options.Url,
    workload: Annotated[
        str,
        typer.Option(
            "--workload",
            "-w",
            help="A name such as chat, rag, code, synthetic:in=256,out=64, "
            "mix:chat=0.7,rag=0.3, or a trace's file; docs/workloads.md has all.",
        ),
    ] = "chat",
    rate: Annotated[
        float | None,
        typer.Option("--rate", "-r", help="Conversations begun per second, open loop."),
    ] = None,
    arrivals: Annotated[
        str,
        typer.Option(
            help="How --rate's requests come: poisson, constant, gamma:SHAPE (below 1: in bursts), "
            "ramp:LAST (the rate at the end), step (x5 in the middle third) or "
            "step:FACTOR:FROM:TO (seconds)."
        ),
    ] = "poisson",
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", "-c", help="Clients, closed loop.")
    ] = None,
    time_scale: Annotated[
        float | None,
        typer.Option(help="Replay a trace's own times, multiplied by this: 0.5 is twice as fast."),
    ] = None,
    duration: Annotated[
        float | None,
        typer.Option(
            "--duration",
            "-d",
            help="Seconds in which requests are begun; with --find-rate, of each rate tried.",
            show_default="30, or until --requests or a trace end",
        ),
    ] = None,
    requests: Annotated[
        int | None, typer.Option("--requests", "-n", help="Begin at most so many requests.")
    ] = None,
    model: options.Model = None,
    api: options.ApiName = "chat",
    api_key: options.ApiKey = None,
    header: options.Header = None,
    body: options.Body = None,
    timeout: options.Timeout = 600.0,
    stream: Annotated[bool, typer.Option(help="Ask for streamed answers.")] = True,
    tokenizer: options.TokenizerName = None,
    seed: options.Seed = 0,
    cache: Annotated[
        str,
        typer.Option(
            help="cold (emptied before the run), warm (a pass is sent first), or undeclared."
        ),
    ] = "undeclared",
    slo: options.Slo = None,
    find_rate: Annotated[
        bool, typer.Option("--find-rate", help="Search the highest rate that meets --slo.")
    ] = False,
    lowest_rate: Annotated[
        float, typer.Option(help="Where the search looks no lower, requests per second.")
    ] = 1 / 64,
    highest_rate: Annotated[float, typer.Option(help="Where it looks no higher.")] = 4096.0,
    budget: Annotated[
        float, typer.Option(help="Seconds of load that the search may spend.")
    ] = 1200.0,
    warmup: options.Warmup = "auto",
    cooldown: options.Cooldown = "auto",
    drain: Annotated[
        float, typer.Option(help="Seconds that requests under way have left at the end.")
    ] = 30.0,
    as_tool: options.AsTool = None,
    records: Annotated[
        Path | None,
        typer.Option(
            help="Keep every request's record in this file; netgain bench report reads it.",
            show_default="in netgain's folder for runs",
        ),
    ] = None,
    keep_text: Annotated[bool, typer.Option(help="Keep the answers in the records.")] = False,
    skip_bad_lines: Annotated[
        bool, typer.Option(help="Leave broken lines of a trace out, and count them.")
    ] = False,
    csv: options.Csv = None,
    html: options.Html = None,
    as_json: options.AsJson = False,
    plot: options.Plot = False,
) -> None:
    """Load one server, and report what its users felt.

    With --rate, requests come at their own times, whether or not earlier ones were answered, and
    latency counts from the time a request was meant to be sent. With --concurrency, so many clients
    each send when they were answered.

    Examples:

      netgain bench http://127.0.0.1:8000 --workload chat --rate 4 --duration 30

      netgain bench http://127.0.0.1:8000 -w rag -c 8 -n 200 --html run.html

      netgain bench http://127.0.0.1:8000 --find-rate --slo examples/slo.yaml
    """
    from netgain.cli.bench.choices import cache_of, tool_of, trim_of
    from netgain.cli.bench.interrupt import terminated_as_interrupted
    from netgain.cli.bench.show import check_places
    from netgain.lab.slo_file import read_slo
    from netgain.lab.workloads.registry import parse_workload

    level = None if slo is None else read_slo(slo)
    tool = tool_of(as_tool)
    trim = trim_of(warmup, cooldown)
    source = parse_workload(workload, skip_bad_lines=skip_bad_lines)
    cache_state = cache_of(cache)
    if find_rate and level is None:
        raise ConfigurationError("--find-rate needs a service level: give --slo FILE")
    if find_rate and (rate is not None or concurrency is not None or time_scale is not None):
        raise ConfigurationError("--find-rate chooses the rate itself: leave --rate and others out")
    if find_rate and (requests is not None or records or csv or as_tool or keep_text):
        raise ConfigurationError(
            "--find-rate makes many runs: leave --requests, --records, --csv, --as and --keep-text "
            "out"
        )
    if duration is not None and not 0 < duration < math.inf:
        raise ConfigurationError(f"--duration {duration:g}: give seconds above 0")
    if not 0 <= drain < math.inf:
        raise ConfigurationError(f"--drain {drain:g}: give seconds, 0 or more")
    if concurrency is not None and concurrency < 1:
        raise ConfigurationError(f"--concurrency {concurrency}: give 1 or more")
    if requests is not None and requests < 1:
        raise ConfigurationError(f"--requests {requests}: give 1 or more")
    check_places(html, csv)
    load = None if find_rate else _load(source, rate, arrivals, concurrency, time_scale, duration)
    target = options.find(
        url,
        model=model,
        api=api,
        api_key=api_key,
        headers=header,
        body=body,
        timeout_s=timeout,
        stream=stream,
    )
    bench = options.bench_of(target, tokenizer)
    if load is None:
        assert level is not None
        with terminated_as_interrupted():
            _search(
                bench,
                source,
                level,
                duration_s=duration or _DURATION_S,
                lowest_rate=lowest_rate,
                highest_rate=highest_rate,
                budget_s=budget,
                arrivals=arrivals,
                seed=seed,
                cache=cache_state,
                trim=trim,
                drain_s=drain,
                as_json=as_json,
                html=html,
                plot=plot,
            )
        return
    from netgain.lab.bench import RunPlan

    bounded = requests is not None or source.size is not None
    plan = RunPlan(
        workload=source,
        load=load,
        duration_s=duration if duration is not None or bounded else _DURATION_S,
        requests=requests,
        seed=seed,
        cache=cache_state,
        drain_s=drain,
        keep_text=keep_text,
    )
    with terminated_as_interrupted():
        _one_run(bench, plan, level, trim, tool, records, csv, html, as_json=as_json, plot=plot)


def _one_run(
    bench: "Bench",
    plan: "RunPlan",
    slo: "ServiceLevel | None",
    trim: "TrimRule",
    tool: "Tool | None",
    records: Path | None,
    csv: Path | None,
    html: Path | None,
    *,
    as_json: bool,
    plot: bool,
) -> None:
    from netgain.cli.bench.live import LiveLine
    from netgain.cli.bench.show import show, write_rows
    from netgain.lab.bench_report import report_of
    from netgain.lab.foreign.tools import as_tool
    from netgain.lab.metrics.run_metrics import measure_run

    records_to = records or _runs_folder_file()
    try:
        with LiveLine() as line:
            done = bench.run(plan, line.show, records_to)
    except KeyboardInterrupt:
        if records_to.is_file():
            typer.echo(f"Records until then: {records_to}", err=True)
        raise
    measured = measure_run(done.header, done.records, trim=trim, slo=slo)
    foreign = None if tool is None else as_tool(tool, done.header, done.records, slo)
    typer.echo(f"Records: {records_to}", err=True)
    show(report_of(measured, foreign, done.end), as_json=as_json, html=html, plot=plot)
    if csv is not None:
        write_rows(measured, csv)
    _end(done, answered=measured.metrics.answered)


def _end(done: "BenchRun", *, answered: int) -> None:
    """Exits with 1 when the run did not go to its end, nothing was answered, or records are
    missing.
    """
    from netgain.lab.load_plan import Ended

    if done.outcome.ended is Ended.INTERRUPTED:
        raise typer.Exit(130)
    if done.outcome.ended is not Ended.COMPLETE or not answered or done.unwritten:
        raise typer.Exit(1)


def _search(
    bench: "Bench",
    workload: "Workload",
    slo: "ServiceLevel",
    *,
    duration_s: float,
    lowest_rate: float,
    highest_rate: float,
    budget_s: float,
    arrivals: str,
    seed: int,
    cache: "CacheState",
    trim: "TrimRule",
    drain_s: float,
    as_json: bool,
    html: Path | None,
    plot: bool,
) -> None:
    from netgain.cli.bench.live import LiveLine
    from netgain.cli.bench.show import show
    from netgain.lab.arrivals_text import parse_arrivals
    from netgain.lab.bench import RunPlan
    from netgain.lab.load_plan import Ended, OpenLoad
    from netgain.lab.metrics.run_metrics import RunMetrics, run_metrics
    from netgain.lab.rate_point import RatePoint
    from netgain.lab.rate_report import rate_report
    from netgain.lab.rate_search import Ask, Outcome, SearchLimits, find_rate
    from netgain.lab.workloads.seeds import repeat_seed

    limits = SearchLimits(
        first=max(min(1.0, highest_rate), lowest_rate),
        lowest=lowest_rate,
        highest=highest_rate,
        duration_s=duration_s,
        budget_s=budget_s,
    )
    header = None
    with LiveLine() as line:

        def measure(ask: Ask) -> RunMetrics:
            nonlocal header
            line.label = f"{ask.rate:.3g}/s"
            plan = RunPlan(
                workload=workload,
                load=OpenLoad(parse_arrivals(arrivals, ask.rate, ask.duration_s)),
                duration_s=ask.duration_s,
                seed=repeat_seed(seed, ask.repeat),
                cache=cache,
                drain_s=drain_s,
            )
            done = bench.run(plan, line.show)
            header = done.header
            if done.outcome.ended is not Ended.COMPLETE:
                raise NetgainError(f"{done.outcome.ended.value}: {done.outcome.reason}")
            return run_metrics(done.header, done.records, trim=trim, slo=slo)

        def said(point: RatePoint) -> None:
            line.say(f"{point.rate:.3g}/s {point.verdict.value}: {point.reason}")

        answer = find_rate(measure, slo.attainment, limits, said)
    show(rate_report(answer, header), as_json=as_json, html=html, plot=plot)
    if answer.outcome in (Outcome.STOPPED, Outcome.NOT_OFFERED):
        raise typer.Exit(1)


def _load(
    workload: "Workload",
    rate: float | None,
    arrivals: str,
    concurrency: int | None,
    time_scale: float | None,
    duration_s: float | None,
) -> "Load":
    from netgain.lab.arrivals_text import parse_arrivals
    from netgain.lab.load_plan import ClosedLoad, OpenLoad, ReplayLoad

    given = [
        name
        for name, value in (
            ("--rate", rate),
            ("--concurrency", concurrency),
            ("--time-scale", time_scale),
        )
        if value is not None
    ]
    if len(given) > 1:
        raise ConfigurationError(f"{' and '.join(given)} exclude each other: give one of them")
    if rate is not None:
        return OpenLoad(parse_arrivals(arrivals, rate, duration_s or _DURATION_S))
    if concurrency is not None:
        return ClosedLoad(concurrency)
    if workload.timed:
        return ReplayLoad(1.0 if time_scale is None else time_scale)
    if time_scale is not None:
        raise ConfigurationError(
            f"workload {workload.name} has no times of its own to scale: give --rate"
        )
    raise ConfigurationError(
        "say how requests come: --rate 4 (per second, open loop) or --concurrency 8 (clients)"
    )


def _runs_folder_file() -> Path:
    """A new file's name in the user's folder for runs."""
    import os
    import time

    import platformdirs

    folder = platformdirs.user_state_path("netgain") / "runs"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"cannot keep records in {folder} ({error.strerror}): name a file with --records"
        ) from error
    # The process tells runs apart that begin in the same second.
    return folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.jsonl"
