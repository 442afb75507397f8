"""Tensor operations: one interface, several backends."""
