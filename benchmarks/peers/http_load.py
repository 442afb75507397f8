"""Concurrent streams against one `/v1/completions`, the same client for every server."""

import asyncio
import json
import time
from collections.abc import Sequence
from typing import Final

import httpx

from benchmarks.peers.failure import PeerError
from benchmarks.peers.protocol import Times

_LIMIT_S: Final = 300.0


def stream_all(
    url: str, model: str, prompts: Sequence[Sequence[int]], tokens: Sequence[int]
) -> list[Times]:
    """One stream a prompt, all at once. Raises `PeerError` when one does not bring its tokens."""
    return asyncio.run(_stream_all(url, model, prompts, tokens))


async def _stream_all(
    url: str, model: str, prompts: Sequence[Sequence[int]], tokens: Sequence[int]
) -> list[Times]:
    bodies = [
        json.dumps(
            {
                "model": model,
                "prompt": list(prompt),
                "max_tokens": count,
                "temperature": 0,
                "ignore_eos": True,
                "stream": True,
                "stream_options": {"include_usage": True},
            }
        ).encode()
        for prompt, count in zip(prompts, tokens, strict=True)
    ]
    limits = httpx.Limits(max_connections=len(bodies))
    async with httpx.AsyncClient(timeout=_LIMIT_S, limits=limits) as client:
        began = time.perf_counter()
        return await asyncio.gather(
            *(
                _stream(client, f"{url}/v1/completions", body, count, began)
                for body, count in zip(bodies, tokens, strict=True)
            )
        )


async def _stream(
    client: httpx.AsyncClient, url: str, body: bytes, count: int, began: float
) -> Times:
    """Collects the bytes as they come and reads them afterwards: client and server share cores."""
    first_s = 0.0
    received: list[bytes] = []
    try:
        async with client.stream(
            "POST", url, content=body, headers={"content-type": "application/json"}
        ) as response:
            async for piece in response.aiter_raw():
                received.append(piece)
                first_s = first_s or time.perf_counter() - began
            status = response.status_code
    except httpx.HTTPError as error:
        raise PeerError(f"{type(error).__name__}: {error}") from error
    last_s = time.perf_counter() - began
    text = b"".join(received).decode("utf-8", "replace")
    if status != httpx.codes.OK:
        raise PeerError(f"HTTP {status}: {text[:200]}")
    got = completion_tokens(text)
    if got != count:
        raise PeerError(f"asked for {count} new tokens, the stream's usage says {got}")
    return Times(first_s, last_s)


def completion_tokens(events: str) -> int | None:
    """`usage.completion_tokens` of the last event that has a usage."""
    for line in reversed(events.splitlines()):
        data = line.removeprefix("data:").strip()
        if line.startswith("data:") and data.startswith("{"):
            usage = json.loads(data).get("usage")
            if usage:
                tokens: int = usage["completion_tokens"]
                return tokens
    return None
