"""The `netgain plan` group. Commands import what they compute with only once they run."""

import typer

from netgain.cli.plan.advise import advise
from netgain.cli.plan.cache import cache
from netgain.cli.plan.check import check
from netgain.cli.plan.chunk import chunk
from netgain.cli.plan.compare_hardware import compare_hardware
from netgain.cli.plan.knowledge import knowledge
from netgain.cli.plan.links import links
from netgain.cli.plan.memory import memory
from netgain.cli.plan.pd import pd
from netgain.cli.plan.price import price
from netgain.cli.plan.roofline import roofline
from netgain.cli.plan.spec import spec

app = typer.Typer(
    name="plan",
    help="Does it fit, what bounds it, what would it cost: computed before anything is bought or "
    "started. A prediction is a hypothesis; every figure says what it rests on.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command()(memory)
app.command()(roofline)
app.command()(links)
app.command()(chunk)
app.command()(spec)
app.command()(pd)
app.command()(cache)
app.command()(knowledge)
app.command()(price)
app.command()(advise)
app.command("compare-hardware")(compare_hardware)
app.command()(check)
