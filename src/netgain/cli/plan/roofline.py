"""`netgain plan roofline`."""

from typing import Annotated

import typer

from netgain.cli.plan.laid_out import Network, TopologyName
from netgain.cli.plan.options import DP, EP, PP, TP, KVDType, Model, Weights
from netgain.cli.plan.output import AsJson, Explain, Hardware, Html, Plot


def roofline(
    model: Model,
    on: Annotated[str, typer.Option("--on", help="A device, such as L40S.")],
    batch: Annotated[str, typer.Option(help="Sequences that decode together.")] = "1,8,64",
    prompt: Annotated[str, typer.Option(help="Prompt lengths to prefill.")] = "64,512,2048",
    context: Annotated[int, typer.Option(help="Tokens a decoding sequence holds.")] = 1024,
    drafts: Annotated[int, typer.Option(help="Drafts verified at a time; 0: none.")] = 4,
    precision: Weights = None,
    kv_dtype: KVDType = "bf16",
    tp: TP = 1,
    pp: PP = 1,
    dp: DP = 1,
    ep: EP = 1,
    topology: TopologyName = None,
    network: Network = None,
    hardware: Hardware = None,
    as_json: AsJson = False,
    html: Html = None,
    plot: Plot = False,
    explain: Explain = False,
) -> None:
    """What bounds it: prefill, decode and verify of a model under a device's roof.

    Examples:

      netgain plan roofline default --on L40S --plot

      netgain plan roofline llama-3.1-8b --on H100-SXM --precision fp8 --html roofline.html

      netgain plan roofline llama-3.1-70b --on H100-SXM --precision fp8 --tp 4 --explain

      netgain plan roofline deepseek-v3 --on H200 --precision fp8 --dp 8 --ep 8
    """
    from netgain.cli.plan.laid_out import joined
    from netgain.cli.plan.options import catalogue, model_and_weights, sizes
    from netgain.cli.plan.output import show
    from netgain.cost.layout import Layout
    from netgain.cost.planner.roofline_plan import RooflineAsk, plan_roofline
    from netgain.cost.precision import kv_format

    known = catalogue(hardware)
    device = known.device(on)
    layout = Layout(tp=tp, pp=pp, dp=dp, ep=ep)
    shape, stored, source = model_and_weights(model, precision)
    report = plan_roofline(
        RooflineAsk(
            shape=shape,
            weights=stored,
            kv=kv_format(kv_dtype),
            source=source,
            device=device,
            layout=layout,
            batches=sizes("--batch", batch),
            context=context,
            prompts=sizes("--prompt", prompt),
            drafts=drafts,
            topology=joined(known, device, layout, topology, network),
        )
    )
    show(report, as_json=as_json, html=html, plot=plot, explain=explain)
