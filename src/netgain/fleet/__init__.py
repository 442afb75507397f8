"""Replicas: starting, watching and stopping engines."""
