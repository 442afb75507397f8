"""A server's prefix cache from outside: its counters, and forgetting what it holds."""

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import httpx

from netgain.errors import NetgainError
from netgain.lab.side_client import side_client
from netgain.lab.workloads.cache_counters import CacheCounters, read_capacity, read_counters

Value = TypeVar("Value")

_TIMEOUT_S: Final = 30.0
_RESETS: Final = ("/reset_prefix_cache", "/flush_cache")
"""netgain and vLLM (there only with VLLM_SERVER_DEV_MODE=1); SGLang."""
_NO_ROUTE: Final = frozenset({404, 405, 501})


class CacheControlError(NetgainError):
    """A server that has the route and did not do it, or cannot be reached."""


class CacheControl:
    """Asks one server, beside the load."""

    def __init__(self, base_url: str, headers: Mapping[str, str] | None = None) -> None:
        """`base_url` with or without `/v1`; `headers` as the load sends them (authorisation)."""
        self._root: Final = base_url.rstrip("/").removesuffix("/v1")
        self._http = side_client(self._root, _TIMEOUT_S, headers)

    def counters(self) -> CacheCounters | None:
        """None where the server has no `/metrics`, or none that speak of a prefix cache."""
        return self._read(read_counters)

    def capacity_tokens(self) -> int | None:
        """What the KV pool holds; None where the server does not say."""
        return self._read(read_capacity)

    def reset(self) -> str | None:
        """Empties the cache; the route that did it, None where the server has none.

        Raises `CacheControlError` where it has one and it fails: requests that still run, a
        missing key.
        """
        for route in _RESETS:
            answer = self._ask("POST", route)
            if answer.is_success:
                return route
            if answer.status_code not in _NO_ROUTE:
                raise CacheControlError(
                    f"{self._root}{route} answered {answer.status_code}: {answer.text[:300]}; the "
                    "cache was not emptied"
                )
        return None

    def close(self) -> None:
        """Closes the connection."""
        self._http.close()

    def _read(self, reader: Callable[[str], Value | None]) -> Value | None:
        answer = self._ask("GET", "/metrics")
        if answer.status_code != httpx.codes.OK:
            return None
        try:
            return reader(answer.text)
        except ValueError:
            return None

    def _ask(self, method: str, route: str) -> httpx.Response:
        try:
            return self._http.request(method, f"{self._root}{route}")
        except httpx.HTTPError as error:
            raise CacheControlError(f"{self._root}{route} cannot be reached: {error}") from error
