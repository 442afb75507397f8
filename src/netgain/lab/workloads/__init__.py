"""What is asked of a server under test: synthetic traffic, traces, experiments."""
