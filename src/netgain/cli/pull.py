"""`netgain pull`."""

from typing import Annotated

import typer


def pull(
    model: Annotated[
        str, typer.Argument(help="A model's name, as netgain models lists it.")
    ] = "default",
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Read every byte and compare; fetch again what is bad."),
    ] = False,
) -> None:
    """Fetch a model into the cache, unless it is there already.

    Examples:

      netgain pull

      netgain pull smollm2 --verify
    """
    from netgain.cli.progress import FetchBar
    from netgain.models.store import default_store

    store = default_store()
    with FetchBar() as bar:
        path = store.verify(model, bar.report) if verify else store.ensure(model, bar.report)
    typer.echo(path)
