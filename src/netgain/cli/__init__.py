"""The `netgain` command: one file per subcommand, none with logic of its own."""
