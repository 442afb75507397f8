"""`python -m netgain` is the `netgain` command."""

from netgain.cli.main import app

app(prog_name="netgain")
