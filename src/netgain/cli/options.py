"""Options that several commands share."""

from typing import Annotated, TypeAlias

import typer

from netgain.ops.choices import BackendName, KVFormat, Numerics, WeightFormat

Model: TypeAlias = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        help="A name from netgain models, a GGUF file, or a checkpoint folder.",
    ),
]
MaxModelLen: TypeAlias = Annotated[
    int | None,
    typer.Option(help="Most tokens of prompt and answer together.", show_default="the model's"),
]
KVMemory: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Size of the KV pool, for example 512MiB or 2GiB.", show_default="from free memory"
    ),
]
Threads: TypeAlias = Annotated[
    int | None, typer.Option(help="CPU threads.", show_default="usable cores")
]
Backend: TypeAlias = Annotated[
    BackendName, typer.Option(help="Who computes: kernels made for this processor, or torch.")
]
Weights: TypeAlias = Annotated[
    WeightFormat, typer.Option(help="How matrices are kept in memory; the backend may refuse.")
]
NumericsMode: TypeAlias = Annotated[
    Numerics,
    typer.Option(
        "--numerics",
        help="invariant: an answer does not depend, to the last bit, on who shares its steps.",
    ),
]
KVDType: TypeAlias = Annotated[
    KVFormat, typer.Option("--kv-dtype", help="How keys and values are kept in memory.")
]
Temperature: TypeAlias = Annotated[
    float, typer.Option("--temperature", "-t", help="0 always takes the most likely token.")
]
TopP: TypeAlias = Annotated[
    float, typer.Option(help="Keep the smallest set of tokens with this probability.")
]
TopK: TypeAlias = Annotated[int, typer.Option(help="Keep the k likeliest tokens; 0: all.")]
Seed: TypeAlias = Annotated[
    int | None, typer.Option(help="Makes random choices repeatable.", show_default="drawn")
]
Stop: TypeAlias = Annotated[
    list[str] | None, typer.Option(help="Stop before this text; may be given several times.")
]
