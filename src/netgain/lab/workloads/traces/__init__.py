"""Recorded traffic: public trace formats and netgain's own."""
