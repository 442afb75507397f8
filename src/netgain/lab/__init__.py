"""Measures serving systems: workloads, load generation, metrics, reports."""
