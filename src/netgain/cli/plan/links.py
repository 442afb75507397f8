"""`netgain plan links`."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from netgain.cli.plan.engine import StepMs
from netgain.cli.plan.options import KVDType, Weights
from netgain.cli.plan.output import AsJson, Explain, Hardware, Html, Plot

if TYPE_CHECKING:
    from netgain.cost.layout import Layout


def links(
    topology: Annotated[
        str, typer.Argument(help="A topology (see --list), or a device of the catalogue.")
    ] = "nvswitch-h100",
    devices: Annotated[
        int | None, typer.Option(help="Devices in all.", show_default="the preset's")
    ] = None,
    ranks: Annotated[
        int | None, typer.Option(help="How many of them talk.", show_default="all")
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(help="The link between machines, such as 'InfiniBand NDR' or 'EFA p5'."),
    ] = None,
    rails: Annotated[int | None, typer.Option(help="Network adapters per machine.")] = None,
    sizes: Annotated[
        str, typer.Option(help="Buffer sizes.")
    ] = "16KiB,256KiB,1MiB,16MiB,64MiB,256MiB,1GiB",
    launch_us: Annotated[
        float, typer.Option(help="Microseconds before a collective's first byte.")
    ] = 35.0,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="A model to lay out on the devices.")
    ] = None,
    on: Annotated[
        str | None, typer.Option("--on", help="What the devices are, for --model.")
    ] = None,
    needs: Annotated[
        int | None,
        typer.Option(help="Devices one copy needs.", show_default="from its memory"),
    ] = None,
    batch: Annotated[int, typer.Option(help="Sequences decoding in all, for --model.")] = 32,
    context: Annotated[int, typer.Option(help="Tokens each of them holds.")] = 2048,
    tp: Annotated[
        int | None, typer.Option("--tp", help="A layout to try: tensor ranks.", show_default="1")
    ] = None,
    pp: Annotated[
        int | None, typer.Option("--pp", help="Its pipeline stages.", show_default="1")
    ] = None,
    dp: Annotated[
        int | None,
        typer.Option("--dp", help="Its replicas.", show_default="as many as the devices hold"),
    ] = None,
    ep: Annotated[
        int | None,
        typer.Option("--ep", help="Its ranks that share experts.", show_default="1"),
    ] = None,
    precision: Weights = None,
    kv_dtype: KVDType = "bf16",
    measured_step: StepMs = None,
    list_topologies: Annotated[
        bool, typer.Option("--list", help="List the topologies and exit.")
    ] = False,
    hardware: Hardware = None,
    as_json: AsJson = False,
    html: Html = None,
    plot: Plot = False,
    explain: Explain = False,
) -> None:
    """What joins the devices, what collectives take, and how to lay a model out on them.

    Examples:

      netgain plan links bridge-a100 --explain

      netgain plan links nvswitch-h100 --devices 16 --ranks 16 --plot

      netgain plan links bridge-a100 --model llama-3-70b --on A100-80-PCIe

      netgain plan links H100-SXM --devices 16 --model deepseek-v3 --ep 16
    """
    from netgain.hardware.topologies import topology_names

    if list_topologies:
        for name, title in topology_names():
            typer.echo(f"{name:18} {title}")
        return
    from netgain.cli.plan.engine import byte_count, setup_of
    from netgain.cli.plan.options import catalogue
    from netgain.cli.plan.output import show
    from netgain.cost.planner.links_plan import LinksQuestion, plan_links
    from netgain.cost.planner.setup import devices_needed
    from netgain.errors import ConfigurationError
    from netgain.hardware.names import normalised
    from netgain.hardware.topologies import for_device, preset

    known = catalogue(hardware)
    device = next((d for d in known.devices if normalised(d.name) == normalised(topology)), None)
    joined = (
        preset(known, topology, devices, network, rails)
        if device is None
        else for_device(known, device, devices or 8, network or "InfiniBand NDR", rails)
    )
    setup = None
    if model is not None:
        if on is None and device is None:
            raise ConfigurationError("--model needs --on: which device its step times are of")
        setup = setup_of(
            model, on or (device.name if device else ""), precision, kv_dtype, 1, hardware,
            measured_step,
        )  # fmt: skip
        if needs is None:
            needs = devices_needed(setup, len(joined.devices), batch, context)
    report = plan_links(
        LinksQuestion(
            joined,
            ranks,
            tuple(byte_count("--sizes", part) for part in sizes.split(",") if part.strip()),
            launch_us * 1e-6,
            setup,
            needs or 1,
            batch,
            context,
            _layout(tp, pp, dp, ep, len(joined.devices)),
        )
    )
    show(report, as_json=as_json, html=html, plot=plot, explain=explain)


def _layout(
    tp: int | None, pp: int | None, dp: int | None, ep: int | None, devices: int
) -> "Layout | None":
    """The layout that was asked for, replicas on the devices that are left; None if none was."""
    from netgain.cost.layout import Layout

    if tp is pp is dp is ep is None:
        return None
    one_copy = Layout(tp=1 if tp is None else tp, pp=1 if pp is None else pp)
    replicas = max(1, devices // one_copy.devices) if dp is None else dp
    return replace(one_copy, dp=replicas, ep=1 if ep is None else ep)
