"""`netgain bench`."""
