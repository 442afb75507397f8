"""`netgain plan pd`."""

from typing import Annotated

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


def pd(
    model: Model = "llama-3.1-8b",
    on: OnDevice = "H100-SXM",
    rate: Annotated[float, typer.Option(help="Requests per second.")] = 8.0,
    prompt: Annotated[int, typer.Option(help="Tokens of a prompt.")] = 4096,
    output: Annotated[int, typer.Option(help="Tokens of an answer.")] = 256,
    instances: Annotated[int, typer.Option(help="Replicas in all, of --tp devices each.")] = 4,
    batch: Annotated[int, typer.Option(help="Sequences an instance decodes together.")] = 64,
    chunk: Annotated[int, typer.Option(help="Prefill chunk of a unified pool.")] = 2048,
    ttft_ms: Annotated[float, typer.Option(help="Bound on TTFT, p95.")] = 1000.0,
    itl_ms: Annotated[float, typer.Option(help="Bound on time between tokens, p95.")] = 50.0,
    link: Annotated[
        str, typer.Option(help="Link between the pools, one per instance.")
    ] = "InfiniBand NDR",
    link_gb_s: Annotated[
        float | None,
        typer.Option(
            help="Its effective rate, GB/s: measured, under load.", show_default="from --link"
        ),
    ] = None,
    separate_layers: Annotated[
        bool, typer.Option(help="A block is one record per layer, not one over all layers.")
    ] = False,
    outside: Annotated[float, typer.Option(help="Share of TTFT outside the engine, 0 to 1.")] = 0.0,
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
    """One pool or separate prefill and decode pools: rates, balance, what the handoff costs.

    Examples:

      netgain plan pd llama-3.1-8b --on H100-SXM --rate 20 --prompt 8000 --instances 4

      netgain plan pd llama-3.1-70b --tp 4 --link-gb-s 12 --explain
    """
    from netgain.cli.plan.engine import setup_of
    from netgain.cli.plan.options import catalogue
    from netgain.cli.plan.output import show
    from netgain.cost.planner.pd_plan import PDQuestion, plan_pd
    from netgain.hardware.wire import wire

    joined = wire(catalogue(hardware), link)
    effective = joined.bytes_per_s * joined.send if link_gb_s is None else link_gb_s * 1e9
    name = (
        f"{joined.name}, {joined.send:.0%} of {joined.bytes_per_s / 1e9:g} GB/s ({joined.source})"
        if link_gb_s is None
        else f"{joined.name}, as given"
    )
    report = plan_pd(
        PDQuestion(
            setup_of(model, on, precision, kv_dtype, tp, hardware, measured_step),
            rate,
            prompt,
            output,
            instances,
            batch,
            effective,
            name,
            chunk,
            ttft_ms / 1e3,
            itl_ms / 1e3,
            joined_layers=not separate_layers,
            outside_share=outside,
        )
    )
    show(report, as_json=as_json, html=html, plot=plot, explain=explain)
