"""Where the token counts come from, and whether the server's usage can be believed."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from netgain.lab.record import RequestRecord, TokenCounting

_SLACK_TOKENS: Final = 2
"""An end-of-sequence token and a special one: counted by servers, without text."""
_SLACK: Final = 0.05


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Over answered requests.

    `output_tokens` as counted by `counted_by`. `spread`: requests of which only totals are known,
    so that their token gaps are averages within the answer. `usage_missing`: without usage.
    `usage_wrong`: the server's count is off from what the client counted for itself (or is smaller
    than the number of events) by more than two tokens and 5 %. `shorter`: ended before the length
    asked of them. `empty`: no token at all. `in_one_piece`: several tokens, all in one event, as
    when nothing is streamed. `finish`: finish reasons.
    """

    requests: int
    output_tokens: int
    counted_by: Mapping[TokenCounting, int]
    spread: int
    usage_missing: int
    usage_wrong: int
    shorter: int
    empty: int
    in_one_piece: int
    finish: Mapping[str, int]

    @classmethod
    def of(cls, records: Iterable[RequestRecord], output_tokens: float) -> "TokenCounts":
        """Over the answered among `records`, which hold `output_tokens` together."""
        answered = [r for r in records if r.failure is None]
        return cls(
            requests=len(answered),
            output_tokens=round(output_tokens),
            counted_by=Counter(r.counting for r in answered),
            spread=sum(_is_spread(r) for r in answered),
            usage_missing=sum(r.usage is None for r in answered),
            usage_wrong=sum(_is_wrong(r) for r in answered),
            shorter=sum(
                r.max_tokens is not None and 0 < r.output_tokens < r.max_tokens for r in answered
            ),
            empty=sum(r.first_token_s is None for r in answered),
            in_one_piece=sum(len(r.events) == 1 and r.output_tokens > 1 for r in answered),
            finish=Counter(r.finish_reason or "none" for r in answered),
        )


def _is_spread(record: RequestRecord) -> bool:
    return (
        record.counting is TokenCounting.EVENTS
        and record.usage is not None
        and record.usage.completion_tokens > len(record.events) > 0
    )


def _is_wrong(record: RequestRecord) -> bool:
    if record.usage is None:
        return False
    told = record.usage.completion_tokens
    if record.counting in (TokenCounting.EVENTS, TokenCounting.USAGE):
        # No count of the client's own; an event holds at least a part of a token.
        if told >= len(record.events):
            return False
        bearing = sum(event.tokens > 0 for event in record.events)
        return told < bearing - max(_SLACK_TOKENS, _SLACK * bearing)
    return abs(told - record.output_tokens) > max(_SLACK_TOKENS, _SLACK * record.output_tokens)
