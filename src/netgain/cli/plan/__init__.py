"""`netgain plan`: one file a command."""
