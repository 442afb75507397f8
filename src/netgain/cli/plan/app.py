"""The `netgain plan` group. Commands import what they compute with only once they run."""

import typer

app = typer.Typer(
    name="plan",
    help="Does it fit, what bounds it, what would it cost: computed before anything is bought or "
    "started. A prediction is a hypothesis; every figure says what it rests on.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
