"""How many prompt tokens a workload can find in the cache by itself: what it shares within."""

from collections.abc import Sequence

from netgain.lab.conversation import Conversation


def reuse_within(conversations: Sequence[Conversation], lead_tokens: int) -> int:
    """At most so many tokens that an earlier request of the same run put there.

    First turns: what their texts begin with in common (sorted, a text shares the most with its
    neighbour), characters turned into tokens at each prompt's own rate, and `lead_tokens` of the
    template. Later turns: all of their conversation so far. More can only come from before the run.
    """
    total = 0
    previous = ""
    for conversation in sorted(conversations, key=_opening):
        opening = _opening(conversation)
        first = conversation.turns[0]
        tokens = first.prompt_tokens or len(opening.split())
        if previous:
            shared = _common_chars(previous, opening) / max(1, len(opening))
            total += min(tokens, lead_tokens + round(shared * tokens) + 1)
        previous = opening
        so_far = tokens + first.max_tokens
        for turn in conversation.turns[1:]:
            total += so_far
            so_far += (turn.prompt_tokens or len(turn.text.split())) + turn.max_tokens
    return total


def prompt_tokens_of(conversations: Sequence[Conversation]) -> int:
    """Tokens of all prompts, were all answers as long as asked."""
    total = 0
    for conversation in conversations:
        so_far = 0
        for turn in conversation.turns:
            so_far += turn.prompt_tokens or len(turn.text.split())
            total += so_far
            so_far += turn.max_tokens
    return total


def _opening(conversation: Conversation) -> str:
    return f"{conversation.system or ''}\0{conversation.turns[0].text}"


def _common_chars(one: str, other: str) -> int:
    """Length of the common beginning, by halves: texts may be long."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
