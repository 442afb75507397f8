"""The one place that states netgain's version."""

__version__ = "0.1.0"
