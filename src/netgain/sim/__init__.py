"""The real control plane against a virtual clock and a simulated executor."""
