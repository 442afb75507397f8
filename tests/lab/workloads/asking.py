"""Conversations as the target reads them."""

from collections.abc import Iterator, Sequence

from netgain.lab.conversation import Conversation
from netgain.lab.workloads.prompt_writer import PromptWriter
from netgain.lab.workloads.token_counter import Message

ANSWER = "apple pie"


def first_prompt(writer: PromptWriter, conversation: Conversation) -> Sequence[int]:
    """The ids of the first request."""
    text = conversation.turns[0].text
    if not writer.chat:
        return writer.counter.prompt_ids(text)
    return writer.counter.chat_ids(_opening(conversation, text))


def turn_tokens(writer: PromptWriter, conversation: Conversation) -> Iterator[int]:
    """What each turn of a chat really adds to the prompt, were every answer `ANSWER`."""
    messages = _opening(conversation, conversation.turns[0].text)
    before = len(writer.counter.chat_ids(messages))
    yield before
    for turn in conversation.turns[1:]:
        messages += [
            {"role": "assistant", "content": ANSWER},
            {"role": "user", "content": turn.text},
        ]
        whole = len(writer.counter.chat_ids(messages))
        yield whole - before - len(writer.counter.text_ids(ANSWER))
        before = whole


def _opening(conversation: Conversation, text: str) -> list[Message]:
    system = conversation.system
    messages: list[Message] = [] if system is None else [{"role": "system", "content": system}]
    return [*messages, {"role": "user", "content": text}]


def shared_ids(one: Sequence[int], other: Sequence[int]) -> int:
    """How many ids two prompts begin with in common."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))
