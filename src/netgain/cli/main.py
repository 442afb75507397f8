"""The `netgain` command. Subcommands import what they need only once they run."""

from typing import Annotated, Any

import typer

from netgain._version import __version__
from netgain.cli.bench.app import app as bench
from netgain.cli.chat import chat
from netgain.cli.models import models
from netgain.cli.plan.app import app as plan_app
from netgain.cli.pull import pull
from netgain.cli.remove import remove
from netgain.cli.run import run
from netgain.cli.serve import serve
from netgain.errors import NetgainError


class _OneLineErrors(typer.Typer):
    """Prints an error that netgain raises on purpose in red, no traceback, and exits with 1."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().__call__(*args, **kwargs)
        except NetgainError as error:
            typer.secho(f"netgain: {error}", fg=typer.colors.RED, err=True)
            raise SystemExit(1) from error


app = _OneLineErrors(
    name="netgain",
    help="Serves large language models and accounts for every handoff.",
    epilog="Exit codes: 0 done, 1 failed (the reason is on stderr), 2 wrong usage.",
    no_args_is_help=True,
    # Plain help: a table cuts long option names off on a narrow terminal.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"netgain {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the version and exit.",
        ),
    ] = False,
) -> None:
    pass


app.command()(serve)
app.command()(chat)
app.command()(run)
app.command()(pull)
app.command()(models)
app.command()(remove)
app.add_typer(bench)
app.add_typer(plan_app)
