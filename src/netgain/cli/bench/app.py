"""The `netgain bench` group: a URL right after it means a run."""

from typing import Any

import typer
from typer.core import TyperGroup

from netgain.cli.bench.kv import kv
from netgain.cli.bench.report import report
from netgain.cli.bench.run import run
from netgain.cli.bench.ttft import ttft

_RUN = "run"


class _RunByDefault(TyperGroup):
    """`netgain bench http://...` is `netgain bench run http://...`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Puts `run` before what is neither a command nor the group's help."""
        named = args and (args[0] in self.commands or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if named or not args else [_RUN, *args])


app = typer.Typer(
    name="bench",
    cls=_RunByDefault,
    help="Measure any OpenAI-compatible server: what its users feel, under a load that does not "
    "flatter it. `netgain bench URL ...` is `netgain bench run URL ...`.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command(_RUN)(run)
app.command()(report)
app.command()(kv)
app.command()(ttft)
