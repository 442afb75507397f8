"""The same records through other tools' definitions, for comparison with what they print."""
