"""Options that several plan commands share, and how their texts become values."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from netgain.errors import ConfigurationError

if TYPE_CHECKING:
    from netgain.cost.model_shape import ModelShape
    from netgain.cost.precision import WeightFormat
    from netgain.hardware.catalogue import Catalogue

Model: TypeAlias = Annotated[
    str,
    typer.Argument(help="A well-known name, a config.json, a .gguf file, or a checkpoint folder."),
]
On: TypeAlias = Annotated[str | None, typer.Option("--on", help="A device, such as H100-SXM.")]
Weights: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="How weights are stored: bf16, fp8, int8, int4, mxfp4, q4_k ...",
        show_default="as published",
    ),
]
KVDType: TypeAlias = Annotated[
    str, typer.Option("--kv-dtype", help="How keys and values are stored: bf16, fp8, int8 ...")
]
TP: TypeAlias = Annotated[int, typer.Option("--tp", help="Tensor-parallel ranks.")]
PP: TypeAlias = Annotated[int, typer.Option("--pp", help="Pipeline stages.")]
DP: TypeAlias = Annotated[int, typer.Option("--dp", help="Data-parallel copies.")]
EP: TypeAlias = Annotated[int, typer.Option("--ep", help="Ranks that share the experts.")]

OnDevice: TypeAlias = Annotated[str, typer.Option("--on", help="A device, such as H100-SXM.")]
StepMs: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--measured-step",
        help="A measured decode step, MS@BATCHxCONTEXT such as 7.4@8x1280: calibrates all times.",
        show_default="none: data sheet and published fractions",
    ),
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Html: TypeAlias = Annotated[
    Path | None, typer.Option("--html", help="Write a page with charts to this file too.")
]
Plot: TypeAlias = Annotated[bool, typer.Option("--plot", help="Draw the charts in the terminal.")]
Explain: TypeAlias = Annotated[
    bool, typer.Option("--explain", help="Show each figure's arithmetic and where it comes from.")
]
Hardware: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option("--hardware", help="A TOML file with devices or links of your own; repeatable."),
]


def catalogue(files: list[Path] | None) -> "Catalogue":
    """The shipped devices, the user's own file, and `files`. Raises `ConfigurationError`."""
    from netgain.hardware.catalogue import load_catalogue

    return load_catalogue(files or ())


def model_and_weights(name: str, weights: str | None) -> "tuple[ModelShape, WeightFormat, str]":
    """Shape, weight format and where they were read.

    Raises `ModelError` or `ConfigurationError` for names nothing answers to.
    """
    from netgain.cost.precision import weight_format
    from netgain.models.shape_source import open_shape

    opened = open_shape(name)
    chosen = opened.weights if weights is None else weight_format(weights)
    return opened.shape, chosen, opened.source


def sizes(option: str, text: str) -> tuple[int, ...]:
    """`1,8,64` as numbers. Raises `ConfigurationError`."""
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise ConfigurationError(
            f"{option} {text!r}: give whole numbers with commas, such as 1,8,64"
        ) from None
