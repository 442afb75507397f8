"""Asks the measured server beside the load: its counters, its tokenizer."""

from collections.abc import Mapping

import httpx

from netgain.lab.tls import client_tls


def side_client(
    base_url: str, timeout_s: float, headers: Mapping[str, str] | None = None
) -> httpx.Client:
    """A client that goes the way the load goes: straight to the server, whatever proxy the
    environment names, and trusting the same certificates.
    """
    tls = base_url.lower().startswith("https:")
    return httpx.Client(
        verify=client_tls() if tls else False,
        trust_env=False,
        timeout=timeout_s,
        headers=dict(headers or {}),
    )
