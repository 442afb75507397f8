"""`netgain plan advise`."""

from typing import TYPE_CHECKING, Annotated

import typer

from netgain.cli.plan.engine import OnDevice, StepMs
from netgain.cli.plan.options import KVDType, Model, Weights
from netgain.cli.plan.output import AsJson, Explain, Hardware, Html, Plot
from netgain.errors import ConfigurationError

if TYPE_CHECKING:
    from netgain.cost.first_hypothesis import Goal


def advise(
    model: Model = "llama-3.1-8b",
    on: OnDevice = "H100-SXM",
    devices: Annotated[int, typer.Option(help="Devices that can be had.")] = 8,
    queue_share: Annotated[float, typer.Option(help="Share of E2E in the queue, 0 to 1.")] = 0.0,
    prefill_share: Annotated[float, typer.Option(help="Share of E2E in prefill.")] = 0.1,
    decode_share: Annotated[float, typer.Option(help="Share of E2E in decode.")] = 0.9,
    batch: Annotated[int, typer.Option(help="Sequences in a decode step.")] = 1,
    prompt: Annotated[int, typer.Option(help="Tokens of a prompt.")] = 4096,
    output: Annotated[int, typer.Option(help="Tokens of an answer.")] = 256,
    interference: Annotated[
        float, typer.Option(help="Share of decode time lost to prefill beside it.")
    ] = 0.0,
    whole_prompts: Annotated[
        bool, typer.Option(help="Prompts are prefilled in one step, not in chunks.")
    ] = False,
    repeated: Annotated[int, typer.Option(help="Tokens of a prefix that comes again.")] = 0,
    evicted: Annotated[bool, typer.Option(help="It is evicted before it comes again.")] = False,
    static_knowledge: Annotated[
        bool, typer.Option(help="The same bounded texts are in every prompt.")
    ] = False,
    throughput_short: Annotated[
        bool, typer.Option(help="It fits, and throughput is too little.")
    ] = False,
    goal: Annotated[
        str | None,
        typer.Option(
            help="What should get better: ttft, e2e, throughput, bigger-model, cheaper-device."
        ),
    ] = None,
    precision: Weights = None,
    kv_dtype: KVDType = "bf16",
    measured_step: StepMs = None,
    hardware: Hardware = None,
    as_json: AsJson = False,
    html: Html = None,
    plot: Plot = False,
    explain: Explain = False,
) -> None:
    """What to try first for what was seen, the new cost to check, and what techniques do together.

    Examples:

      netgain plan advise llama-3.1-8b --on L40S --batch 1

      netgain plan advise llama-3.1-70b --on H100-SXM --interference 0.3 --goal ttft

      netgain plan advise --repeated 50000 --evicted --prefill-share 0.6 --decode-share 0.3
    """
    from netgain.cli.plan.engine import setup_of
    from netgain.cli.plan.laid_out import engine_of
    from netgain.cli.plan.output import show
    from netgain.cost.first_hypothesis import Situation
    from netgain.cost.planner.advise_plan import AdviseQuestion, plan_advise
    from netgain.cost.planner.setup import devices_needed, over_devices

    seen = Situation(
        queue_share=queue_share,
        prefill_share=prefill_share,
        decode_share=decode_share,
        decode_batch=batch,
        interference_share=interference,
        chunked=not whole_prompts,
        repeated_tokens=repeated,
        evicted_before_reuse=evicted,
        static_knowledge=static_knowledge,
        throughput_short=throughput_short,
    )
    alone = setup_of(model, on, precision, kv_dtype, 1, hardware)
    needed = devices_needed(alone, devices, batch, prompt + output)
    setup = engine_of(
        model, on, precision, kv_dtype, over_devices(alone, needed), None, None, hardware,
        measured_step,
    )  # fmt: skip
    report = plan_advise(
        AdviseQuestion(
            setup,
            seen,
            model,
            precision,
            _goal(goal) if goal is not None else None,
            prompt,
            output,
        )
    )
    show(report, as_json=as_json, html=html, plot=plot, explain=explain)


def _goal(text: str) -> "Goal":
    from netgain.cost.first_hypothesis import Goal

    wanted = {
        "ttft": Goal.SHORTER_TTFT,
        "e2e": Goal.SHORTER_E2E,
        "throughput": Goal.MORE_THROUGHPUT,
        "bigger-model": Goal.BIGGER_MODEL,
        "cheaper-device": Goal.CHEAPER_DEVICE,
    }
    found = wanted.get(text.casefold())
    if found is None:
        raise ConfigurationError(f"--goal {text!r}: give one of {', '.join(wanted)}")
    return found
