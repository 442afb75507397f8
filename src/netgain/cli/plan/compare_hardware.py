"""`netgain plan compare-hardware`."""

from typing import Annotated

import typer

from netgain.cli.plan.options import AsJson, Explain, Hardware, Html, KVDType, Plot, Weights


def compare_hardware(
    devices: Annotated[list[str], typer.Argument(help="Devices, the one you have first.")],
    model: Annotated[str | None, typer.Option("--model", help="A model they should serve.")] = None,
    weights: Weights = None,
    kv_dtype: KVDType = "bf16",
    batch: Annotated[int, typer.Option(help="Sequences that decode together.")] = 8,
    price: Annotated[
        list[str] | None, typer.Option(help="Dollars per device hour: H100-SXM=2.5; repeatable.")
    ] = None,
    hardware: Hardware = None,
    as_json: AsJson = False,
    html: Html = None,
    plot: Plot = False,
    explain: Explain = False,
) -> None:
    """Compares devices on compute, memory, bandwidth, interconnect and power.

    Examples:

      netgain plan compare-hardware H100-SXM MI300X Gaudi3 TPU-v6e

      netgain plan compare-hardware H100-SXM H200 --model llama-3.1-70b --price H200=3.2
    """
    from netgain.cli.plan.options import catalogue, model_and_weights
    from netgain.cli.plan.output import show
    from netgain.cost.planner.compare_plan import CompareAsk, plan_comparison
    from netgain.cost.precision import kv_format
    from netgain.errors import ConfigurationError

    known = catalogue(hardware)
    prices: dict[str, float] = {}
    for text in price or ():
        name, _, dollars = text.partition("=")
        try:
            prices[known.device(name).name] = float(dollars)
        except ValueError:
            raise ConfigurationError(
                f"--price {text!r}: give a device and dollars per hour, such as H100-SXM=2.5"
            ) from None
    shape, stored = None, None
    if model is not None:
        shape, stored, _ = model_and_weights(model, weights)
    ask = CompareAsk(
        devices=tuple({d.name: d for d in map(known.device, devices)}.values()),
        shape=shape,
        weights=stored,
        kv=kv_format(kv_dtype),
        batch=batch,
        prices=prices,
    )
    show(plan_comparison(ask), as_json=as_json, html=html, plot=plot, explain=explain)
