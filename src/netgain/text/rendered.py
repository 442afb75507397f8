"""A conversation rendered by a template, in which clients' text stays text.

A message may hold the spelling of a control token (`<|im_end|>`). In the prompt only the template's
own control tokens may act as such, so those of the messages are replaced by marks before rendering
and put back, as plain characters, when the prompt is encoded.
"""

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from netgain.text.chat_template import ChatTemplate


@dataclass(frozen=True, slots=True)
class RenderedChat:
    """A rendered prompt; `quoted` maps marks in `text` to spellings of tokens."""

    text: str
    quoted: Mapping[str, str] = field(default_factory=dict)


def render_quoted(
    template: ChatTemplate,
    messages: Sequence[Mapping[str, object]],
    control_tokens: Sequence[str],
    *,
    add_generation_prompt: bool = True,
) -> RenderedChat:
    """Renders `messages` with every spelling of `control_tokens` in their strings quoted.

    A mark holds a random part, so no message can contain one. Raises as `ChatTemplate.render`.
    """
    texts = [value for message in messages for value in message.values() if isinstance(value, str)]
    # Most texts hold not even the beginning of one, and there may be hundreds.
    beginnings = {token[:2] for token in control_tokens}
    suspects = [text for text in texts if any(start in text for start in beginnings)]
    used = sorted(
        (token for token in control_tokens if any(token in text for text in suspects)),
        key=len,
        reverse=True,
    )
    if not used:
        return RenderedChat(template.render(messages, add_generation_prompt))
    nonce = secrets.token_hex(16)
    mark_of = {token: f"[{nonce}:{number}]" for number, token in enumerate(used)}
    spelling = re.compile("|".join(map(re.escape, used)))
    marked = [
        {
            name: spelling.sub(lambda found: mark_of[found.group()], value)
            if isinstance(value, str) and name != "role"
            else value
            for name, value in message.items()
        }
        for message in messages
    ]
    text = template.render(marked, add_generation_prompt)
    return RenderedChat(text, {mark: token for token, mark in mark_of.items()})
