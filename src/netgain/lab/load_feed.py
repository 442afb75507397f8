"""Conversations in the order they are given out, each with its number, first index and time."""

from collections.abc import Iterable, Iterator

import msgspec

from netgain.errors import ConfigurationError
from netgain.lab.conversation import Conversation
from netgain.lab.load_messages import Given
from netgain.lab.load_plan import LoadPlan, OpenLoad, ReplayLoad
from netgain.lab.request_body import check_conversation


def load_feed(plan: LoadPlan, conversations: Iterable[Conversation]) -> Iterator[Given]:
    """What a plan asks for of the conversations, within its bounds.

    Raises `ConfigurationError` at a conversation that cannot be asked.
    """
    starts = plan.load.arrivals.offsets(plan.seed) if isinstance(plan.load, OpenLoad) else None
    index = 0
    for number, conversation in enumerate(conversations):
        check_conversation(conversation, plan.target)
        start_s: float | None = None
        if starts is not None:
            start_s = next(starts)
        elif isinstance(plan.load, ReplayLoad):
            if conversation.start_s is None:
                raise ConfigurationError(
                    f"conversation {number} has no time of its own: replay needs a trace"
                )
            start_s = conversation.start_s * plan.load.time_scale
        if start_s is not None and plan.duration_s is not None and start_s >= plan.duration_s:
            return
        if plan.requests is not None:
            left = plan.requests - index
            if left < len(conversation.turns):
                turns = conversation.turns[:left]
                conversation = msgspec.structs.replace(conversation, turns=turns)
        yield Given(number, index, start_s, conversation)
        index += len(conversation.turns)
        if plan.requests is not None and index >= plan.requests:
            return
