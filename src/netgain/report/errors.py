"""What goes wrong with reports on purpose."""

from netgain.errors import NetgainError


class ReportError(NetgainError):
    """A report that contradicts itself, or cannot be written where it was asked to be."""
