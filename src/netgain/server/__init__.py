"""The HTTP side: OpenAI-compatible routes, streams, admission, metrics. No torch, no model."""
