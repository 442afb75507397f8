"""The state of the server's prefix cache: declared, brought about, and checked afterwards."""

import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from netgain.lab.conversation import Conversation
from netgain.lab.run_header import CacheState
from netgain.lab.workloads.cache_control import CacheControl
from netgain.lab.workloads.cache_counters import CacheCounters

_SLACK: Final = 0.02
_WARM_SHARE: Final = 0.5


@dataclass(frozen=True, slots=True)
class Preparation:
    """How a state was brought about. `nonce` goes to the `PromptWriter` of the run."""

    state: CacheState
    nonce: str
    how: str


@dataclass(frozen=True, slots=True)
class CacheVerdict:
    """Whether the declared state held; `held` is None where that cannot be known.

    `counted` is what the server counted during the run, None where it counts nothing.
    """

    state: CacheState
    held: bool | None
    text: str
    counted: CacheCounters | None = None


def prepare(state: CacheState, control: CacheControl) -> Preparation:
    """Brings `state` about, as far as that can be done before the first request.

    Cold: the server forgets, or, where it has no route for that, prompts that it never saw (a
    nonce). Warm: as cold; then the caller sends `warming(...)` before the run. Undeclared: nothing.
    Raises `CacheControlError`.
    """
    if state is CacheState.UNDECLARED:
        return Preparation(state, "", "the cache was left as it was")
    route = control.reset()
    if route is not None:
        return Preparation(state, "", f"the cache was emptied by POST {route}")
    return Preparation(
        state,
        secrets.token_hex(8),
        "the server has no route that empties its cache: every prompt begins with words of this "
        "run only",
    )


def warming(conversations: Iterable[Conversation]) -> Iterator[Conversation]:
    """The pass that fills the cache, not part of the results: first turns, one token each.

    Later turns hold answers, which do not exist yet; a run finds its own.
    """
    for conversation in conversations:
        first = msgspec.structs.replace(
            conversation.turns[0], max_tokens=1, exact_length=False, think_s=0.0
        )
        yield msgspec.structs.replace(conversation, turns=(first,), start_s=None)


def verdict(
    state: CacheState,
    before: CacheCounters | None,
    after: CacheCounters | None,
    *,
    own_reuse_tokens: int,
    warmed_tokens: int,
) -> CacheVerdict:
    """Compares the server's hits between two readings with what the state allows.

    Cold: at most `own_reuse_tokens` (`reuse_within`) and 2 %. Warm: at least half of
    `warmed_tokens`, what the warming pass put there and the run asks for again.
    """
    if before is None or after is None:
        return CacheVerdict(
            state, None, "not checked: the server shows no counters of its prefix cache"
        )
    counted = after.since(before)
    if counted.hit_tokens < 0 or counted.queried_tokens < 0:
        return CacheVerdict(state, None, "not checked: the server's counters began anew")
    found = f"{counted.hit_tokens:,.0f} of {counted.queried_tokens:,.0f} prompt tokens were found"
    if state is CacheState.COLD:
        held = counted.hit_tokens <= own_reuse_tokens * (1 + _SLACK)
        limit = f"{own_reuse_tokens:,} can come from the run itself"
        text = (
            f"cold: {found}; {limit}"
            if held
            else f"NOT cold: {found}, but only {limit}: the cache held prompts from before, or "
            "others used the server"
        )
        return CacheVerdict(state, held, text, counted)
    if state is CacheState.WARM:
        held = counted.hit_tokens >= warmed_tokens * _WARM_SHARE
        warmed = f"{warmed_tokens:,} were sent before"
        text = (
            f"warm: {found}; {warmed}"
            if held
            else f"NOT warm: {found}, though {warmed}: the cache is off, too small, or not shared"
        )
        return CacheVerdict(state, held, text, counted)
    return CacheVerdict(state, None, f"undeclared: {found}", counted)
