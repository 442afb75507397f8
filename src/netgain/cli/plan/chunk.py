"""`netgain plan chunk`."""

from typing import Annotated

import typer

from netgain.cli.plan.engine import OnDevice, StepMs
from netgain.cli.plan.laid_out import Network, TopologyName
from netgain.cli.plan.options import DP, EP, PP, TP, KVDType, Model, Weights
from netgain.cli.plan.output import AsJson, Explain, Hardware, Html, Plot


def chunk(
    model: Model = "llama-3.1-8b",
    on: OnDevice = "H100-SXM",
    prompt: Annotated[int, typer.Option(help="Tokens of the prompt that arrives.")] = 8192,
    batch: Annotated[int, typer.Option(help="Sequences that decode beside it; 0: none.")] = 32,
    context: Annotated[int, typer.Option(help="Tokens each of them holds.")] = 2048,
    itl_ms: Annotated[float, typer.Option(help="Bound on the time between their tokens.")] = 50.0,
    chunks: Annotated[
        str, typer.Option(help="Chunk sizes of the table.")
    ] = "128,256,512,1024,2048,4096,8192",
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
    """Chunk size: what a prefill chunk takes from the decodes beside it, and what cutting costs.

    Examples:

      netgain plan chunk llama-3.1-8b --on H100-SXM --prompt 32000 --itl-ms 30

      netgain plan chunk llama-3.1-70b --precision fp8 --tp 4 --batch 64 --plot
    """
    from netgain.cli.plan.laid_out import engine_of
    from netgain.cli.plan.options import sizes
    from netgain.cli.plan.output import show
    from netgain.cost.layout import Layout
    from netgain.cost.planner.chunk_plan import ChunkQuestion, plan_chunk

    layout = Layout(tp=tp, pp=pp, dp=dp, ep=ep)
    setup = engine_of(
        model, on, precision, kv_dtype, layout, topology, network, hardware, measured_step
    )
    report = plan_chunk(
        ChunkQuestion(setup, prompt, batch, context, itl_ms / 1e3, sizes("--chunks", chunks))
    )
    show(report, as_json=as_json, html=html, plot=plot, explain=explain)
