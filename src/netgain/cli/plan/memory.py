"""`netgain plan memory`."""

from typing import Annotated

import typer

from netgain.cli.plan.options import (
    DP,
    EP,
    PP,
    TP,
    AsJson,
    Explain,
    Hardware,
    Html,
    KVDType,
    Model,
    On,
    Plot,
    Weights,
)


def memory(
    model: Model,
    on: On = None,
    devices: Annotated[
        int | None, typer.Option(help="How many devices; joined by tensor parallelism.")
    ] = None,
    tp: TP = 1,
    pp: PP = 1,
    dp: DP = 1,
    ep: EP = 1,
    weights: Weights = None,
    kv_dtype: KVDType = "bf16",
    kv_length: Annotated[int, typer.Option(help="Tokens that each sequence holds.")] = 4096,
    batch: Annotated[int, typer.Option(help="Sequences wanted at once.")] = 16,
    max_model_len: Annotated[
        int | None,
        typer.Option(help="Longest sequence the engine admits.", show_default="--kv-length"),
    ] = None,
    max_num_seqs: Annotated[int, typer.Option(help="Most sequences in a step.")] = 256,
    max_batched_tokens: Annotated[int, typer.Option(help="Most tokens in a step.")] = 8192,
    utilisation: Annotated[float, typer.Option(help="Share of the memory to use.")] = 0.9,
    block_tokens: Annotated[int, typer.Option(help="Tokens in a KV block.")] = 16,
    hardware: Hardware = None,
    as_json: AsJson = False,
    html: Html = None,
    plot: Plot = False,
    explain: Explain = False,
) -> None:
    """Does it fit: weights, keys and values, what is left, what binds, and ways out.

    Exits with 1 where it does not fit.

    Examples:

      netgain plan memory llama-2-7b --kv-length 4096 --batch 16

      netgain plan memory llama-3.1-70b --on H100-SXM --tp 4 --weights fp8 --explain
    """
    from netgain.cli.plan.options import catalogue, model_and_weights
    from netgain.cli.plan.output import show
    from netgain.cost.layout import Layout
    from netgain.cost.memory import Serving
    from netgain.cost.planner.memory_ask import MemoryAsk
    from netgain.cost.planner.memory_plan import answer_memory
    from netgain.cost.precision import kv_format
    from netgain.errors import ConfigurationError

    known = catalogue(hardware)
    shape, stored, source = model_and_weights(model, weights)
    layout = Layout(tp=tp, pp=pp, dp=dp, ep=ep)
    if devices is not None and devices != layout.devices:
        if layout.devices != 1:
            raise ConfigurationError(
                f"--devices {devices} is not tp x pp x dp = {layout.devices}: give one or the other"
            )
        layout = Layout(tp=devices, ep=ep)
    answer = answer_memory(
        MemoryAsk(
            shape=shape,
            weights=stored,
            kv=kv_format(kv_dtype),
            source=source,
            sequences=batch,
            tokens=kv_length,
            device=None if on is None else known.device(on),
            layout=layout,
            serving=Serving(
                max_num_seqs, max_model_len, max_batched_tokens, utilisation, block_tokens
            ),
            others=known.devices,
        )
    )
    show(answer.report, as_json=as_json, html=html, plot=plot, explain=explain)
    if answer.failure is not None:
        raise answer.failure
