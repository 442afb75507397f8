"""Questions in, reports out: what each `netgain plan` command computes, without its options."""
