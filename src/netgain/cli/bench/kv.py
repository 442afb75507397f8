"""`netgain bench kv`."""

from typing import Annotated

import typer

from netgain.cli.bench import options

_ROOM_TOKENS = 1024
"""In the small server's context, for templates and for the texts that count their tokens."""


def kv(
    url: options.GivenUrl = None,
    model: options.OwnModel = "default",
    tokenizer: options.TokenizerName = None,
    prefix: Annotated[int, typer.Option(help="Tokens of each prefix.")] = 1024,
    suffix: Annotated[int, typer.Option(help="Tokens of each question after it.")] = 64,
    answer: Annotated[int, typer.Option(help="Tokens of each answer.")] = 16,
    requests: Annotated[int, typer.Option("--requests", "-n", help="Requests of each arm.")] = 30,
    concurrency: Annotated[
        int, typer.Option("--concurrency", "-c", help="Clients; 1 keeps queueing out of TTFT.")
    ] = 1,
    small_pool: Annotated[
        str, typer.Option(help="KV pool of netgain's own server for the arm that overfills it.")
    ] = "64MiB",
    seed: options.Seed = 0,
    html: options.Html = None,
    as_json: options.AsJson = False,
    plot: options.Plot = False,
) -> None:
    """What the prefix cache saves and costs.

    Its arms: off, cold, warm, mixed, and too small. Without a URL netgain starts servers of its
    own, one for each setting that an arm needs. Arms that the engine cannot do yet (tiers below the
    device) are listed as not available.

    Examples:

      netgain bench kv

      netgain bench kv http://127.0.0.1:8000 --prefix 512 -n 20 --html kv.html
    """
    from netgain.cli.bench.experiment import Server, run_and_show
    from netgain.cli.bench.interrupt import terminated_as_interrupted
    from netgain.lab.workloads.experiments.kv_cache import KVSettings, kv_experiment, kv_report

    server = Server(url, model, tokenizer)
    small: tuple[str, ...] = ()
    if url is None:
        # A pool has to hold one request of the greatest length, so that is made small too.
        longest = prefix + suffix + answer + _ROOM_TOKENS
        small = ("--kv-memory", small_pool, "--max-model-len", str(longest))
    # Asked before, since how many prefixes overfill the pool depends on it.
    with terminated_as_interrupted(), server.bench(small) as bench:
        capacity = bench.capacity_tokens()
    settings = KVSettings(
        prefix_tokens=prefix,
        suffix_tokens=suffix,
        answer_tokens=answer,
        requests=requests,
        concurrency=concurrency,
        capacity_tokens=capacity,
        saturated_flags=small,
    )
    run_and_show(
        kv_experiment(settings),
        kv_report,
        server,
        seed=seed,
        as_json=as_json,
        html=html,
        plot=plot,
    )
