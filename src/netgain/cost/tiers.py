"""KV cache beyond the device: is a hit worth loading, and how often does one come.

Sources: SPEC's T_warm; CacheGen (codec), Cake (compute or load from both ends, arXiv 2410.03065),
Che's approximation for LRU hit rates.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from netgain.cost.bounds import at_least_zero, count, fraction, positive

_MOST_STEPS: Final = 500
"""Of Newton's method: some tens are usual."""


@dataclass(frozen=True, slots=True)
class TierPath:
    """The way from one tier to the device.

    `bytes_per_s` as one request sees it, `latency_s` to the first byte (look-up there included),
    `queue_s` waiting behind other transfers, `decode_bytes_per_s` deserialising (0: free).
    """

    name: str
    bytes_per_s: float
    latency_s: float = 0.0
    queue_s: float = 0.0
    decode_bytes_per_s: float = 0.0

    def __post_init__(self) -> None:
        """Raises `ConfigurationError` for a bandwidth of 0 or negative times."""
        positive(f"{self.name} bandwidth", self.bytes_per_s)
        for what in ("latency_s", "queue_s", "decode_bytes_per_s"):
            at_least_zero(f"{self.name} {what}", getattr(self, what))

    def load_s(self, stored_bytes: float) -> float:
        """T_lookup + T_queue + T_transfer + T_deserialise."""
        at_least_zero("stored_bytes", stored_bytes)
        decode_s = stored_bytes / self.decode_bytes_per_s if self.decode_bytes_per_s else 0.0
        return self.latency_s + self.queue_s + stored_bytes / self.bytes_per_s + decode_s


def warm_s(
    lookup_s: float,
    queue_s: float,
    transfer_s: float,
    deserialise_s: float,
    suffix_prefill_s: float,
) -> float:
    """T_warm = T_lookup + T_queue + T_transfer + T_deserialise + T_suffix_prefill."""
    return lookup_s + queue_s + transfer_s + deserialise_s + suffix_prefill_s


def transfer_s(stored_bytes: float, bytes_per_s: float) -> float:
    """Least time the bytes need: size over effective bandwidth."""
    return at_least_zero("stored_bytes", stored_bytes) / positive("bytes_per_s", bytes_per_s)


def reuse_pays(warm: float, full: float) -> bool:
    """Reuse where T_warm < T_full, recompute otherwise."""
    return warm < full


def least_useful_bytes_per_s(kv_bytes_per_token: float, prefill_s_per_token: float) -> float:
    """Bandwidth below which loading a token's KV takes longer than making it anew."""
    return kv_bytes_per_token / positive("prefill_s_per_token", prefill_s_per_token)


def break_even_tokens(
    path: TierPath, kv_bytes_per_token: float, prefill_s_per_token: float, deepest: int = 1 << 30
) -> int | None:
    """Fewest hit tokens for which loading wins, prefill taken as linear; None: it never does."""
    per_token = kv_bytes_per_token / path.bytes_per_s
    if path.decode_bytes_per_s:
        per_token += kv_bytes_per_token / path.decode_bytes_per_s
    saved = positive("prefill_s_per_token", prefill_s_per_token) - per_token
    if saved <= 0:
        return None
    tokens = math.floor((path.latency_s + path.queue_s) / saved) + 1
    return tokens if tokens <= deepest else None


def codec_break_even_bytes_per_s(plain_bytes: float, ratio: float, codec_s: float) -> float:
    """Bandwidth below which compressing pays: S (1 - 1/r) / (T_encode + T_decode).

    Infinite for a codec that takes no time, 0 for one that does not shrink anything.
    """
    saved = positive("plain_bytes", plain_bytes) * (1.0 - 1.0 / positive("ratio", ratio))
    if saved <= 0:
        return 0.0
    return saved / codec_s if at_least_zero("codec_s", codec_s) else math.inf


def coded_s(plain_bytes: float, ratio: float, bytes_per_s: float, codec_s: float) -> float:
    """T_encode + bytes / bandwidth + T_decode of the compressed form."""
    return transfer_s(plain_bytes / positive("ratio", ratio), bytes_per_s) + codec_s


def race_s(load_s: float, compute_s: float) -> float:
    """Compute from the front while loading from the back, both linear in tokens.

    1 / (1 / T_load + 1 / T_comp). Source: Cake.
    """
    if load_s == 0 or compute_s == 0:
        return 0.0
    return 1.0 / (1.0 / positive("load_s", load_s) + 1.0 / positive("compute_s", compute_s))


def race_share_computed(load_s: float, compute_s: float) -> float:
    """Share of the tokens that are computed when the two ends meet."""
    whole = positive("load_s + compute_s", load_s + compute_s)
    return load_s / whole


def layer_pipelined_s(load_s: float, compute_s: float, layers: int) -> float:
    """Loading one layer while the one before computes: max of the two, plus one layer of the other.

    The first layer's load (or the last one's computation) has nothing to hide behind.
    """
    count("layers", layers)
    return max(load_s, compute_s) + min(load_s, compute_s) / layers


@dataclass(frozen=True, slots=True)
class Reuse:
    """Some requests that hit, and how many tokens each of them saved."""

    requests: int
    tokens_each: int

    @property
    def tokens(self) -> int:
        """Tokens that were not prefilled."""
        return self.requests * self.tokens_each


def request_hit_rate(hits: Sequence[Reuse], requests: int) -> float:
    """Share of requests that hit anything at all."""
    return sum(group.requests for group in hits) / count("requests", requests)


def token_hit_rate(hits: Sequence[Reuse], queried_tokens: int) -> float:
    """Share of queried tokens that were found."""
    return sum(group.tokens for group in hits) / count("queried_tokens", queried_tokens)


def infinite_cache_hit_rate(distinct: float, requests: float) -> float:
    """Upper bound of any cache: 1 - U / N, each distinct item misses once."""
    positive("requests", requests)
    fraction("distinct / requests", distinct / requests)
    return 1.0 - distinct / requests


@lru_cache(maxsize=4)
def zipf(items: int, exponent: float) -> tuple[float, ...]:
    """Popularity of `items` things, most popular first, proportional to 1 / rank^exponent."""
    count("items", items)
    at_least_zero("exponent", exponent)
    weights = [rank**-exponent for rank in range(1, items + 1)]
    whole = sum(weights)
    return tuple(weight / whole for weight in weights)


def characteristic_time(popularity: Sequence[float], capacity: float) -> float:
    """Che's T_C in requests: how long an item stays unread before LRU drops it.

    Solves sum of (1 - exp(-p T)) = capacity; infinite where everything fits.
    """
    positive("capacity", capacity)
    if capacity >= sum(1 for share in popularity if share > 0):
        return math.inf
    # Newton from the left: what a cache holds grows ever slower with time, so that no step goes too
    # far. After `capacity` requests it holds at most that many.
    time = capacity
    for _ in range(_MOST_STEPS):
        gone = [share * math.exp(-share * time) for share in popularity if share > 0]
        step = (capacity - distinct_items(popularity, time)) / math.fsum(gone)
        time += step
        if step <= 1e-12 * time:
            break
    return time


def lru_hit_rate_from_empty(popularity: Sequence[float], capacity: float, requests: float) -> float:
    """Hit rate over the first `requests` requests of a cache that starts empty.

    Each item's first request misses however large the cache: Che's chance of a hit after an
    elapsed time t is 1 - exp(-p min(t, T_C)), averaged over the run. No capacity helps beyond
    what that many requests touch.
    """
    positive("requests", requests)
    time = min(characteristic_time(popularity, capacity), requests)
    hits = 0.0
    for share in popularity:
        if share > 0:
            kept = -math.expm1(-share * time)
            hits += share * time - kept + share * (requests - time) * kept
    return hits / requests


def distinct_items(popularity: Sequence[float], requests: float) -> float:
    """Items that this many independent requests are expected to touch: sum of 1 - exp(-p n)."""
    return sum(-math.expm1(-share * requests) for share in popularity)
