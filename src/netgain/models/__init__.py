"""Model definitions, checkpoint loaders and the store of fetched models."""
