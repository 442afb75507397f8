"""`netgain plan price`."""

from typing import Annotated

import typer

from netgain.cli.plan.engine import OnDevice, StepMs
from netgain.cli.plan.laid_out import Network, TopologyName
from netgain.cli.plan.options import DP, EP, PP, TP, KVDType, Model, Weights
from netgain.cli.plan.output import AsJson, Explain, Hardware, Html, Plot

_ASSUMED_PRICE = 2.5


def price(
    model: Model = "llama-3.1-8b",
    on: OnDevice = "H100-SXM",
    price_per_hour: Annotated[
        float | None,
        typer.Option(
            help="Dollars per device-hour.", show_default="price_per_hour of the catalogue, or 2.5"
        ),
    ] = None,
    prompt: Annotated[int, typer.Option(help="Tokens of a prompt.")] = 1024,
    output: Annotated[int, typer.Option(help="Tokens of an answer.")] = 256,
    cached: Annotated[int, typer.Option(help="Tokens of a prompt that a cache holds.")] = 0,
    batch: Annotated[int, typer.Option(help="Sequences a replica decodes together.")] = 32,
    rate: Annotated[
        float | None,
        typer.Option(help="Requests per second to carry.", show_default="what one replica carries"),
    ] = None,
    utilisation: Annotated[
        float, typer.Option(help="Share of the time a replica is busy, at most.")
    ] = 0.6,
    spare: Annotated[int, typer.Option(help="Replicas reserved and idle.")] = 0,
    available: Annotated[
        int | None, typer.Option(help="Devices that can be had.", show_default="any number")
    ] = None,
    attainment: Annotated[
        float, typer.Option(help="Share of requests that meet every SLO, 0 to 1.")
    ] = 1.0,
    calls: Annotated[float, typer.Option(help="Requests of a task.")] = 10.0,
    retries: Annotated[float, typer.Option(help="Share of them that is sent again.")] = 0.0,
    watts: Annotated[
        float | None, typer.Option(help="Power of a device.", show_default="the catalogue's")
    ] = None,
    pue: Annotated[float, typer.Option(help="The site's power over the machines'.")] = 1.3,
    kwh_price: Annotated[float, typer.Option(help="Dollars per kWh.")] = 0.1,
    tok_s: Annotated[
        float | None,
        typer.Option(
            help="Output tokens/s of one replica, measured.", show_default="from the step time"
        ),
    ] = None,
    sold_at: Annotated[
        float | None, typer.Option(help="Income: dollars per million output tokens.")
    ] = None,
    precision: Weights = None,
    kv_dtype: KVDType = "bf16",
    tp: TP = 1,
    pp: PP = 1,
    dp: DP = 1,
    ep: EP = 1,
    topology: TopologyName = None,
    network: Network = None,
    measured_step: StepMs = None,
    hardware: Hardware = None,
    as_json: AsJson = False,
    html: Html = None,
    plot: Plot = False,
    explain: Explain = False,
) -> None:
    """What it costs: per million tokens, per good request, per task; and power.

    Examples:

      netgain plan price llama-3.1-8b --on H100-SXM --price-per-hour 2.5 --batch 32

      netgain plan price llama-3.1-70b --on H200 --precision fp8 --tp 2 --rate 20 --spare 1

      netgain plan price deepseek-v3 --on H200 --tp 8 --price-per-hour 2 --tok-s 1850 --explain
    """
    from netgain.cli.plan.laid_out import engine_of
    from netgain.cli.plan.output import show
    from netgain.cost.layout import Layout
    from netgain.cost.planner.price_plan import ASSUMED_PRICE, PriceQuestion, plan_price

    layout = Layout(tp=tp, pp=pp, dp=dp, ep=ep)
    setup = engine_of(
        model, on, precision, kv_dtype, layout, topology, network, hardware, measured_step
    )
    known, source = setup.device.price_per_hour, "as given"
    if price_per_hour is None:
        price_per_hour = _ASSUMED_PRICE if known is None else known.value
        source = ASSUMED_PRICE if known is None else known.cited
    report = plan_price(
        PriceQuestion(
            setup,
            price_per_hour,
            prompt,
            output,
            batch,
            cached,
            rate,
            utilisation,
            spare,
            attainment,
            calls,
            retries,
            watts,
            pue,
            kwh_price,
            tok_s,
            sold_at,
            available,
            source,
        )
    )
    show(report, as_json=as_json, html=html, plot=plot, explain=explain)
