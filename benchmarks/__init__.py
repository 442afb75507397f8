"""Benchmarks: each prints a table and writes JSON with machine, versions and command."""
