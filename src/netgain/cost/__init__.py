"""Pure formulas: memory and step time. No torch, no I/O."""
