"""How many tokens each event brought, by the best source there is."""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from netgain.lab.answer import Answer
from netgain.lab.record import RequestRecord, TokenCounting, TokenEvent

CountTokens = Callable[[str], int]
"""Tokens of a text, without any that only begin or end one."""

_WINDOW: Final = 64
_TOLERANCE: Final = 0.1
_TOLERANCE_TOKENS: Final = 2


class Counted(msgspec.Struct, frozen=True):
    """Tokens of each event with content, and of the answer; the latter may be more: tokens without
    text (the end of sequence) come with no event.
    """

    per_event: tuple[int, ...]
    total: int
    source: TokenCounting


def count_by_server(answer: Answer) -> Counted:
    """By running usage, if every event has it; else by logprobs; else one an event."""
    content = answer.content
    if not answer.streamed and answer.usage is not None and content:
        total = answer.usage.completion_tokens
        return Counted((total,), total, TokenCounting.USAGE)
    running = [event.usage_tokens for event in content]
    if content and _grows(running):
        numbers = [number or 0 for number in running]
        steps = [after - before for before, after in zip([0, *numbers], numbers, strict=False)]
        total = max(numbers[-1], answer.usage.completion_tokens if answer.usage else 0)
        return Counted(tuple(steps), total, TokenCounting.USAGE)
    if content and all(event.logprobs for event in content):
        per_event = tuple(event.logprobs for event in content)
        return Counted(per_event, answer.logprobs, TokenCounting.LOGPROBS)
    return Counted((1,) * len(content), len(content), TokenCounting.EVENTS)


def recounted(
    record: RequestRecord, texts: Sequence[Sequence[tuple[int, str]]], count: CountTokens
) -> RequestRecord:
    """A record whose events were counted one by one, counted anew by a tokenizer.

    `texts` are what each event added, by choice. Where the server's usage differs from the
    tokenizer's total by at most a tenth or two tokens (the end of sequence, texts that encode
    otherwise than they were made), the events are scaled to it. Beyond that it does not speak of
    this text (hidden reasoning, a false count) and the tokenizer's own numbers stand.
    `tokenizer_tokens` keeps the tokenizer's total either way. Records that the server counted come
    back as they are.
    """
    if record.counting is not TokenCounting.EVENTS or not record.events:
        return record
    totals = running_totals(texts, count)
    own = totals[-1]
    usage = record.usage.completion_tokens if record.usage else 0
    allowed = max(_TOLERANCE_TOKENS, _TOLERANCE * own)
    if own and usage and 0 < abs(usage - own) <= allowed:
        totals = [round(total * usage / own) for total in totals]
    events = tuple(
        TokenEvent(event.at_s, after - before, event.reasoning)
        for event, before, after in zip(record.events, [0, *totals], totals, strict=False)
    )
    return msgspec.structs.replace(
        record,
        events=events,
        output_tokens=totals[-1],
        counting=TokenCounting.TOKENIZER,
        tokenizer_tokens=own,
    )


def running_totals(texts: Sequence[Sequence[tuple[int, str]]], count: CountTokens) -> list[int]:
    """Tokens of the text so far after each event, never falling, over all choices.

    The last is exact: the whole texts, counted at once. Those before are counted over the end of
    the text only, from a word's beginning on, so that long answers take linear time.
    """
    choices: dict[int, _Growing] = {}
    totals: list[int] = []
    for added in texts:
        for choice, text in added:
            choices.setdefault(choice, _Growing(count)).add(text)
        now = sum(growing.tokens for growing in choices.values())
        totals.append(max(now, totals[-1] if totals else 0))
    if totals:
        exact = sum(count("".join(growing.pieces)) for growing in choices.values())
        totals = [min(total, exact) for total in totals]
        totals[-1] = exact
    return totals


class _Growing:
    """A text that grows, and about how many tokens it has."""

    def __init__(self, count: CountTokens) -> None:
        self._count = count
        self._settled = 0
        self._tail = ""
        self.pieces: list[str] = []
        self.tokens = 0

    def add(self, text: str) -> None:
        self.pieces.append(text)
        self._tail += text
        self.tokens = self._settled + self._count(self._tail)
        if len(self._tail) <= 2 * _WINDOW:
            return
        # A word's beginning, and the space before it, is where tokenizers cut first.
        cut = self._tail.rfind(" ", _WINDOW, len(self._tail) - _WINDOW)
        if cut > 0 and self._tail[cut - 1] != " ":
            self._settled += self._count(self._tail[:cut])
            self._tail = self._tail[cut:]


def _grows(running: Sequence[int | None]) -> bool:
    """Whether every event has a count, and they are those of a text that grows."""
    before = 0
    for number in running:
        if number is None or number < before:
            return False
        before = number
    return before > 0
