"""Hand-made answers whose every metric can be worked out on paper. Times in milliseconds."""

from netgain.lab.record import (
    ErrorKind,
    Failure,
    RequestRecord,
    TokenCounting,
    TokenEvent,
    Usage,
)

Chunk = tuple[int, int]
"""When an event with content was read, and how many tokens it brought."""


def answer(
    index: int,
    chunks: list[Chunk],
    *,
    intended: int = 0,
    sent: int | None = None,
    role: int | None = None,
    finish: int | None = None,
    end: int | None = None,
    reasoning: int = 0,
    usage: int | None = None,
    cached: int | None = None,
    prompt: int = 10,
    counting: TokenCounting = TokenCounting.TOKENIZER,
    failure: ErrorKind | None = None,
    request_class: str = "chat",
    max_tokens: int | None = None,
) -> RequestRecord:
    """An answer of `chunks`, the first `reasoning` of them reasoning.

    `role`: when an event with only a role came; `finish`: when an empty last event did. `usage`:
    the completion tokens the server claims.
    """
    times = [at for at, _ in chunks]
    said = [at for at, _ in chunks[reasoning:]]
    last = max(t for t in [*times, finish, role, sent or intended] if t is not None)
    first_event = role if role is not None else (times[0] if times else finish)
    return RequestRecord(
        index=index,
        request_class=request_class,
        conversation=index,
        intended_s=intended / 1000,
        sent_s=(intended if sent is None else sent) / 1000,
        first_byte_s=_s(first_event),
        first_event_s=_s(first_event),
        first_token_s=_s(times[0] if times else None),
        first_output_s=_s(said[0] if said else None),
        last_choice_s=_s(finish if finish is not None else times[-1] if times else role),
        last_token_s=_s(times[-1] if times else None),
        end_s=(last if end is None else end) / 1000,
        events=tuple(
            TokenEvent(at / 1000, tokens, number < reasoning)
            for number, (at, tokens) in enumerate(chunks)
        ),
        empty_events_s=tuple(at / 1000 for at in (role, finish) if at is not None),
        output_tokens=sum(tokens for _, tokens in chunks),
        counting=counting,
        prompt_tokens=prompt,
        max_tokens=max_tokens,
        usage=None if usage is None else Usage(prompt, usage, cached),
        finish_reason=None if failure else "stop",
        status=200,
        failure=None if failure is None else Failure(failure, f"{failure.value} happened"),
    )


def _s(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
