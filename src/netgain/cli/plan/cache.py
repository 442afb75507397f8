"""`netgain plan cache`."""

from typing import TYPE_CHECKING, Annotated

import typer

from netgain.cli.plan.options import (
    TP,
    AsJson,
    Explain,
    Hardware,
    Html,
    KVDType,
    Model,
    OnDevice,
    Plot,
    StepMs,
    Weights,
)
from netgain.errors import ConfigurationError

if TYPE_CHECKING:
    from netgain.cost.planner.cache_plan import Codec
    from netgain.cost.tiers import TierPath

_TIERS = ["dram=50:0.1", "nvme=6.5:0.2", "remote=19:1", "s3=0.09:150"]


def cache(
    model: Model = "llama-3.1-8b",
    on: OnDevice = "H100-SXM",
    prefix: Annotated[int, typer.Option(help="Tokens that were seen before.")] = 8192,
    suffix: Annotated[int, typer.Option(help="Tokens after them that were not.")] = 256,
    tier: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=GB/s[:latency ms], effective as one request sees it; repeatable.",
            show_default="dram, nvme, remote, s3",
        ),
    ] = None,
    prefixes: Annotated[int, typer.Option(help="Different prefixes in the traffic.")] = 1000,
    zipf: Annotated[float, typer.Option(help="Exponent of their popularity; 0: equal.")] = 0.8,
    requests: Annotated[int, typer.Option(help="Requests, from empty caches.")] = 20_000,
    replicas: Annotated[int, typer.Option(help="Replicas with tiers of their own.")] = 4,
    capacity: Annotated[str, typer.Option(help="Capacity of each replica's tiers.")] = "256GiB",
    hit_rate: Annotated[
        float | None, typer.Option(help="Measured share of requests that hit, 0 to 1.")
    ] = None,
    codec: Annotated[
        str | None,
        typer.Option(help="RATIO:ENCODE:DECODE, the last two in GB/s, such as 3.5:20:20."),
    ] = None,
    precision: Weights = None,
    kv_dtype: KVDType = "bf16",
    tp: TP = 1,
    measured_step: StepMs = None,
    hardware: Hardware = None,
    as_json: AsJson = False,
    html: Html = None,
    plot: Plot = False,
    explain: Explain = False,
) -> None:
    """Load a prefix's KV from below or prefill it again, by tier; and how often a hit comes.

    Examples:

      netgain plan cache llama-3.1-8b --on H100-SXM --prefix 50000

      netgain plan cache --tier dram=50 --tier nvme=6.5:0.2 --codec 3.5:20:20 --explain
    """
    from netgain.cli.plan.engine import byte_count, setup_of
    from netgain.cli.plan.output import show
    from netgain.cost.planner.cache_plan import CacheQuestion, plan_cache

    report = plan_cache(
        CacheQuestion(
            setup_of(model, on, precision, kv_dtype, tp, hardware, measured_step),
            tuple(_tier(text) for text in (_TIERS if tier is None else tier)),
            prefix,
            suffix,
            prefixes,
            zipf,
            requests,
            replicas,
            byte_count("--capacity", capacity),
            hit_rate,
            _codec(codec) if codec is not None else None,
        )
    )
    show(report, as_json=as_json, html=html, plot=plot, explain=explain)


def _tier(text: str) -> "TierPath":
    from netgain.cost.tiers import TierPath

    name, equals, rest = text.partition("=")
    rate, _, latency = rest.partition(":")
    try:
        if not equals or not name:
            raise ValueError
        return TierPath(name, float(rate) * 1e9, float(latency or 0) / 1e3)
    except ValueError:
        raise ConfigurationError(
            f"--tier {text!r}: give NAME=GB/s[:latency ms], such as nvme=6.5:0.2"
        ) from None


def _codec(text: str) -> "Codec":
    from netgain.cost.planner.cache_plan import Codec

    try:
        ratio, encode, decode = (float(part) for part in text.split(":"))
    except ValueError:
        raise ConfigurationError(
            f"--codec {text!r}: give RATIO:ENCODE:DECODE, such as 3.5:20:20"
        ) from None
    return Codec(ratio, encode * 1e9, decode * 1e9)
