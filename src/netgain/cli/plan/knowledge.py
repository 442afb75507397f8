"""`netgain plan knowledge`."""

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


def knowledge(
    model: Model = "llama-3.1-8b",
    on: OnDevice = "H100-SXM",
    corpus: Annotated[int, typer.Option(help="Tokens of the stable knowledge.")] = 100_000,
    system: Annotated[int, typer.Option(help="Tokens of the system prompt.")] = 500,
    question: Annotated[int, typer.Option(help="Tokens of a question.")] = 500,
    chunks: Annotated[int, typer.Option(help="Chunks that RAG retrieves.")] = 10,
    chunk: Annotated[int, typer.Option(help="Tokens of a chunk.")] = 500,
    answer: Annotated[int, typer.Option(help="Tokens of an answer.")] = 200,
    rate: Annotated[float, typer.Option(help="Questions per second.")] = 1.0,
    updates_per_day: Annotated[float, typer.Option(help="Changes of the knowledge.")] = 1.0,
    stable: Annotated[
        float, typer.Option(help="Share of the corpus a hybrid caches, 0 to 1.")
    ] = 0.8,
    hybrid_chunks: Annotated[int, typer.Option(help="Chunks that a hybrid retrieves.")] = 2,
    retrieval_ms: Annotated[
        float, typer.Option(help="What a question waits for its retrieval.")
    ] = 100.0,
    retrieval_device_ms: Annotated[
        float, typer.Option(help="Device time of a retrieval: embed, search, rerank.")
    ] = 20.0,
    batch: Annotated[int, typer.Option(help="Sequences that decode together.")] = 8,
    load_gb_s: Annotated[
        float,
        typer.Option(help="Load the corpus's KV from a tier at this rate; 0: it stays resident."),
    ] = 0.0,
    input_price: Annotated[
        float, typer.Option(help="Managed API: $ per million fresh tokens.")
    ] = 3.0,
    cached_price: Annotated[
        float, typer.Option(help="Managed API: $ per million cached tokens.")
    ] = 0.3,
    retrieval_price: Annotated[float, typer.Option(help="Managed API: $ per retrieval.")] = 0.0,
    storage_price: Annotated[
        float, typer.Option(help="Managed API: $ per hour of the kept cache.")
    ] = 0.0,
    dollars_per_hour: Annotated[float, typer.Option(help="Own devices: $ per device-hour.")] = 2.0,
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
    """RAG, CAG or a hybrid: own device time and a managed API's price, kept apart; break-evens.

    Examples:

      netgain plan knowledge llama-3.1-8b --corpus 100000 --rate 2

      netgain plan knowledge --corpus 20000 --updates-per-day 24 --explain
    """
    from netgain.cli.plan.engine import setup_of
    from netgain.cli.plan.output import show
    from netgain.cost.bounds import positive
    from netgain.cost.knowledge import KnowledgeShape, ManagedPrices
    from netgain.cost.planner.knowledge_plan import KnowledgeQuestion, plan_knowledge

    an_hour = positive("--rate", rate) * 3600
    report = plan_knowledge(
        KnowledgeQuestion(
            setup_of(model, on, precision, kv_dtype, tp, hardware, measured_step),
            KnowledgeShape(system, question, chunk, chunks, corpus, stable, hybrid_chunks),
            ManagedPrices(input_price, cached_price, retrieval_price, storage_price / an_hour),
            answer,
            rate,
            updates_per_day,
            retrieval_device_ms / 1e3,
            retrieval_ms / 1e3,
            batch,
            load_gb_s * 1e9,
            dollars_per_hour,
        )
    )
    show(report, as_json=as_json, html=html, plot=plot, explain=explain)
