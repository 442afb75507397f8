"""`netgain remove`."""

from typing import Annotated

import typer


def remove(
    model: Annotated[str, typer.Argument(help="A model's name, as netgain models lists it.")],
) -> None:
    """Delete a model from the cache.

    Example:

      netgain remove smollm2
    """
    from netgain.models.store import remove as remove_stored

    typer.echo(f"freed {remove_stored(model) / 1e6:.1f} MB")
