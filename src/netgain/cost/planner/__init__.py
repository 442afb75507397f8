"""What each `netgain plan` command computes: a question as a dataclass in, a report out."""
