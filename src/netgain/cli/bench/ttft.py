"""`netgain bench ttft`."""

from typing import Annotated

import typer

from netgain.cli.bench import options
from netgain.errors import ConfigurationError


def ttft(
    url: options.GivenUrl = None,
    model: options.OwnModel = "default",
    tokenizer: options.TokenizerName = None,
    decoder_rate: Annotated[
        float, typer.Option(help="Requests per second that decode long answers.")
    ] = 0.5,
    short_rate: Annotated[
        float, typer.Option(help="Short requests per second, whose TTFT is watched.")
    ] = 1.0,
    long: Annotated[int, typer.Option("--long", help="Tokens of a long prompt.")] = 2048,
    shares: Annotated[
        str, typer.Option(help="Shares of long prompts among all requests, one arm each.")
    ] = "0,0.1,0.25,0.4",
    duration: Annotated[
        float, typer.Option("--duration", "-d", help="Seconds of each arm.")
    ] = 60.0,
    seed: options.Seed = 0,
    html: options.Html = None,
    as_json: options.AsJson = False,
    plot: options.Plot = False,
) -> None:
    """What long prompts do to everybody else.

    Measured are the gaps of decoders and the TTFT of short requests. Every arm has the same
    decoders and short requests; long prompts come on top, in growing shares. Prefill and decode in
    separate pools, the remedy, is listed as not available yet.

    Examples:

      netgain bench ttft --duration 30

      netgain bench ttft http://127.0.0.1:8000 --long 1024 --shares 0,0.2 --html ttft.html
    """
    from netgain.cli.bench.experiment import Server, run_and_show
    from netgain.lab.workloads.experiments.interference import (
        InterferenceSettings,
        interference_experiment,
        interference_report,
    )

    settings = InterferenceSettings(
        decoder_rate=decoder_rate,
        short_rate=short_rate,
        long_prompt=long,
        shares=_shares(shares),
        duration_s=duration,
    )
    run_and_show(
        interference_experiment(settings),
        interference_report,
        Server(url, model, tokenizer),
        seed=seed,
        as_json=as_json,
        html=html,
        plot=plot,
    )


def _shares(text: str) -> tuple[float, ...]:
    try:
        shares = tuple(float(part) for part in text.split(","))
    except ValueError:
        shares = ()
    if not shares or any(not 0 <= share < 1 for share in shares):
        raise ConfigurationError(f"--shares {text!r}: give numbers from 0 to below 1, as 0,0.2,0.4")
    return shares if shares[0] == 0 else (0.0, *shares)
