"""`netgain plan check`."""

from typing import Annotated

import typer

from netgain.cli.plan.options import AsJson, Explain, Hardware, Html, Plot


def check(
    claim: Annotated[
        str | None, typer.Argument(help="The claim, in words.", show_default="from the options")
    ] = None,
    model: Annotated[str | None, typer.Option("--model", help="The model.")] = None,
    on: Annotated[str | None, typer.Option("--on", help="The device.")] = None,
    devices: Annotated[int | None, typer.Option(help="How many devices.")] = None,
    precision: Annotated[str | None, typer.Option(help="How weights are stored.")] = None,
    kv_dtype: Annotated[str | None, typer.Option(help="How keys and values are stored.")] = None,
    batch: Annotated[int | None, typer.Option(help="Most sequences at once.")] = None,
    context: Annotated[int | None, typer.Option(help="Tokens each of them holds.")] = None,
    tok_s: Annotated[float | None, typer.Option(help="Tokens/s of all together.")] = None,
    tok_s_each: Annotated[float | None, typer.Option(help="Tokens/s of one sequence.")] = None,
    tpot_ms: Annotated[float | None, typer.Option(help="Milliseconds per token.")] = None,
    prefill_tok_s: Annotated[float | None, typer.Option(help="Prompt tokens/s.")] = None,
    spec_accept_length: Annotated[
        float | None, typer.Option(help="Tokens per verification, the bonus token included.")
    ] = None,
    kv_bytes_per_token: Annotated[float | None, typer.Option(help="KV bytes per token.")] = None,
    tflops: Annotated[float | None, typer.Option(help="A dense rate of the device.")] = None,
    hardware: Hardware = None,
    as_json: AsJson = False,
    html: Html = None,
    plot: Plot = False,
    explain: Explain = False,
) -> None:
    """Can a published number be true: possible, suspicious or impossible, and why.

    Exits with 1 for what is impossible.

    Examples:

      netgain plan check "Llama-3.3-70B FP8 on 1x H200 batch 4: 1700 tok/s"

      netgain plan check --model llama-3.1-8b --on H100-SXM --precision bf16 --tpot-ms 3.5
    """
    from dataclasses import replace

    from netgain.cli.plan.options import catalogue, model_and_weights
    from netgain.cli.plan.output import show
    from netgain.cost.claim import Claim, Verdict
    from netgain.cost.claim_text import read_claim
    from netgain.cost.planner.check_plan import plan_check
    from netgain.cost.precision import kv_format, weight_format

    known = catalogue(hardware)
    said = read_claim(claim, known) if claim else Claim()
    if model is not None:
        shape, stored, _ = model_and_weights(model, None)
        said = replace(said, shape=shape, weights=stored)
    if precision is not None:
        said = replace(said, weights=weight_format(precision))
    if kv_dtype is not None:
        said = replace(said, kv=kv_format(kv_dtype))
    if on is not None:
        said = replace(said, device=known.device(on))
    said = replace(
        said,
        devices=said.devices if devices is None else devices,
        batch=said.batch if batch is None else batch,
        context=said.context if context is None else context,
        tokens_per_s=said.tokens_per_s if tok_s is None else tok_s,
        tokens_per_s_each=said.tokens_per_s_each if tok_s_each is None else tok_s_each,
        tpot_s=said.tpot_s if tpot_ms is None else tpot_ms / 1000,
        prefill_tokens_per_s=(
            said.prefill_tokens_per_s if prefill_tok_s is None else prefill_tok_s
        ),
        accept_length=said.accept_length if spec_accept_length is None else spec_accept_length,
        kv_bytes_per_token=(
            said.kv_bytes_per_token if kv_bytes_per_token is None else kv_bytes_per_token
        ),
        tflops=said.tflops if tflops is None else tflops,
    )
    report, verdict = plan_check(said)
    show(report, as_json=as_json, html=html, plot=plot, explain=explain)
    if verdict is Verdict.IMPOSSIBLE:
        raise typer.Exit(1)
