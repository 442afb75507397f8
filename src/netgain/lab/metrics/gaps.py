"""Time between tokens, and between stream events.

An event that brings k tokens a time g after the last event with tokens gives k token gaps (ITLs) of
g / k: its tokens were made one after another, the client only learned of them together. The first
event's extra tokens give no gap: nothing tells when they were made. An event with text but no whole
token gives no token gap; its time belongs to the next one that has. Chunk gaps are between events,
whatever they carry.
"""

from dataclasses import dataclass

import numpy as np

from netgain.lab.metrics.columns import FloatArray, IntArray, RequestColumns
from netgain.lab.metrics.grouped import sums


@dataclass(frozen=True, slots=True)
class Gaps:
    """[G] gaps of answered requests: seconds, how many tokens had it, whose, when it ended."""

    seconds: FloatArray
    tokens: FloatArray
    request: IntArray
    at_s: FloatArray

    @property
    def single(self) -> bool:
        """Whether each gap is that of one token."""
        return bool(np.all(self.tokens == 1))

    def mean_per_request(self, requests: int) -> FloatArray:
        """[N] each request's mean gap; NaN where it has none."""
        total = sums(self.request, self.seconds * self.tokens, requests)
        tokens = sums(self.request, self.tokens, requests)
        return _quotient(total, tokens)

    def tokens_per_request(self, requests: int) -> FloatArray:
        """[N] how many token gaps each request has."""
        return sums(self.request, self.tokens, requests)

    def share_within(self, limit_s: float, requests: int) -> FloatArray:
        """[N] share of each request's token gaps that are at most `limit_s`; NaN if it has none."""
        within = np.where(self.seconds <= limit_s, self.tokens, 0.0)
        met = sums(self.request, within, requests)
        tokens = self.tokens_per_request(requests)
        return _quotient(met, tokens)


def token_gaps(columns: RequestColumns) -> Gaps:
    """Inter-token latencies (ITL)."""
    bearing = (columns.event_tokens > 0) & columns.answered[columns.event_request]
    at_s = columns.event_at_s[bearing]
    request = columns.event_request[bearing]
    tokens = columns.event_tokens[bearing]
    same = request[1:] == request[:-1]
    seconds = (at_s[1:] - at_s[:-1])[same]
    tokens = tokens[1:][same]
    return Gaps(seconds / tokens, tokens, request[1:][same], at_s[1:][same])


def chunk_gaps(columns: RequestColumns) -> Gaps:
    """Gaps between stream events with content; each counts once."""
    heard = columns.answered[columns.event_request]
    at_s = columns.event_at_s[heard]
    request = columns.event_request[heard]
    same = request[1:] == request[:-1]
    seconds = (at_s[1:] - at_s[:-1])[same]
    return Gaps(seconds, np.ones(len(seconds)), request[1:][same], at_s[1:][same])


def _quotient(amounts: FloatArray, counts: FloatArray) -> FloatArray:
    """[N] amounts / counts; NaN where the count is 0."""
    return np.where(counts > 0, amounts / np.where(counts > 0, counts, 1), np.nan)
