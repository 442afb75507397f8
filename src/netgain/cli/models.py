"""`netgain models`."""

from typing import Annotated

import typer


def models(
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON array.")] = False,
) -> None:
    """List the models that can be named, and which of them are here.

    Examples:

      netgain models

      netgain models --json
    """
    from netgain.models.store import list_models

    found = list_models()
    if as_json:
        import json
        from dataclasses import asdict

        typer.echo(json.dumps([asdict(model) for model in found], default=str, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None)
    table.add_column("name", no_wrap=True)
    table.add_column("also", no_wrap=True)
    for heading in ("fetched", "MB", "architecture", "weights"):
        table.add_column(heading)
    table.add_column("path", no_wrap=True)
    for model in found:
        table.add_row(
            model.name,
            ", ".join(model.aliases),
            "yes" if model.fetched else "no",
            f"{model.stored_bytes / 1e6:.1f}" if model.fetched else "-",
            model.architecture or "-",
            model.quantisation or "-",
            str(model.path),
        )
    # A path that wraps cannot be copied: let the terminal break the line where it must.
    console = Console()
    Console(width=max(console.width, 240)).print(table)
