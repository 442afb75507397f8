"""`netgain plan spec`."""

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


def spec(
    model: Model = "llama-3.1-8b",
    on: OnDevice = "H100-SXM",
    acceptance: Annotated[
        float | None,
        typer.Option(help="Chance that a draft is accepted, 0 to 1.", show_default="0.7"),
    ] = None,
    accepted_length: Annotated[
        float | None,
        typer.Option(
            help="Instead: mean drafts accepted per iteration of --depth, the target's own "
            "token not counted."
        ),
    ] = None,
    conditional: Annotated[
        str | None,
        typer.Option(
            help="Measured acceptance per position, each given those before, such as 0.8,0.7,0.6."
        ),
    ] = None,
    depth: Annotated[int, typer.Option("--depth", "-k", help="Drafts per iteration (K).")] = 4,
    batch: Annotated[int, typer.Option(help="Sequences that decode together.")] = 1,
    context: Annotated[int, typer.Option(help="Tokens each of them holds.")] = 1024,
    draft: Annotated[
        str | None, typer.Option(help="The drafting model, timed on the same device.")
    ] = None,
    draft_ratio: Annotated[
        float,
        typer.Option(help="Without --draft: one drafted token's time over a plain step's."),
    ] = 0.05,
    over_us: Annotated[float, typer.Option(help="Microseconds an iteration costs on top.")] = 0.0,
    batches: Annotated[
        str, typer.Option(help="Batches of the table.")
    ] = "1,2,4,8,16,32,64,128,256,512",
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
    """What speculative decoding gains at each depth and batch, what it costs, where it turns.

    Examples:

      netgain plan spec llama-3.1-8b --on H100-SXM --acceptance 0.7 --draft llama-3.2-1b

      netgain plan spec llama-3.1-70b --tp 4 --conditional 0.8,0.7,0.6 --depth 3 --batch 16

      netgain plan spec --accepted-length 2.4 --depth 4 --draft-ratio 0 --explain
    """
    from netgain.cli.plan.engine import numbers, setup_of
    from netgain.cli.plan.options import model_and_weights, sizes
    from netgain.cli.plan.output import show
    from netgain.cost.planner.spec_plan import SpecQuestion, acceptance_of_length, plan_spec
    from netgain.errors import ConfigurationError

    drafter = model_and_weights(draft, None) if draft is not None else None
    asked = sizes("--batches", batches)
    if not asked:
        raise ConfigurationError("--batches is empty: give at least one, such as 1,8,64")
    given = {"--acceptance": acceptance, "--accepted-length": accepted_length}
    given["--conditional"] = None if conditional is None else 0.0
    named = [name for name, value in given.items() if value is not None]
    if accepted_length is not None:
        if len(named) > 1:
            raise ConfigurationError(f"{' and '.join(named)} say the same: give one of them")
        acceptance = acceptance_of_length(accepted_length, depth)
    report = plan_spec(
        SpecQuestion(
            setup_of(model, on, precision, kv_dtype, tp, hardware, measured_step),
            0.7 if acceptance is None else acceptance,
            depth,
            batch,
            context,
            draft_ratio,
            drafter[0] if drafter else None,
            drafter[1] if drafter else None,
            numbers("--conditional", conditional) if conditional is not None else (),
            over_us * 1e-6,
            asked,
            max(8, depth),
        )
    )
    show(report, as_json=as_json, html=html, plot=plot, explain=explain)
