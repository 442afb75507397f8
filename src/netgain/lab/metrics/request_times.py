"""The latencies of each request."""

from dataclasses import dataclass

import numpy as np

from netgain.lab.metrics.columns import BoolArray, FloatArray, RequestColumns


@dataclass(frozen=True, slots=True)
class RequestTimes:
    """[N] seconds, NaN where a request has no such time; only answered requests have any.

    `ttft`: start to the first token, reasoning included; `ttft_from_sent` the same from the send.
    `ttfo`: start to the first token that is not reasoning. `tpot`: (last token - first token) /
    (n - 1), undefined for n = 1, and where all tokens came in one event: nothing tells their pace.
    `e2e`: start to the last token; `e2e_from_sent` from the send.
    `normalised`: e2e / n. `client_queueing`: sent - intended, of every request that was sent.
    """

    ttft: FloatArray
    ttft_from_sent: FloatArray
    ttfo: FloatArray
    tpot: FloatArray
    e2e: FloatArray
    e2e_from_sent: FloatArray
    normalised: FloatArray
    client_queueing: FloatArray

    @classmethod
    def of(cls, columns: RequestColumns) -> "RequestTimes":
        """Every request's latencies, by the definitions above."""
        n = columns.output_tokens
        several = (n > 1) & (np.diff(columns.event_from) > 1)
        span = columns.last_token_s - columns.first_token_s
        e2e = columns.last_token_s - columns.start_s
        answered = columns.answered
        return cls(
            ttft=_where(answered, columns.first_token_s - columns.start_s),
            ttft_from_sent=_where(answered, columns.first_token_s - columns.sent_s),
            ttfo=_where(answered, columns.first_output_s - columns.start_s),
            tpot=_where(answered & several, span / np.where(several, n - 1, 1)),
            e2e=_where(answered, e2e),
            e2e_from_sent=_where(answered, columns.last_token_s - columns.sent_s),
            normalised=_where(answered & (n >= 1), e2e / np.maximum(n, 1)),
            client_queueing=columns.sent_s - columns.intended_s,
        )


def _where(has: BoolArray, seconds: FloatArray) -> FloatArray:
    return np.where(has, seconds, np.nan)
