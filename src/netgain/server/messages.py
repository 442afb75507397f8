"""The messages of a chat request."""

from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field, StrictStr

from netgain.server.fields import MAX_NAME_CHARS, FailFastList, Fields

MAX_MESSAGES: Final = 4096
MAX_PARTS: Final = 1024
MAX_ALL_PARTS: Final = 4096
"""Of all messages together: a body has room for hundreds of thousands."""

_SENT_BACK: Final = "only empty or null, as the official client sends an answer back"


def _nothing(value: object) -> object:
    if value != []:
        raise ValueError("not built yet: leave it out, or write it into the content")
    return value


NothingYet = Annotated[list[object], BeforeValidator(_nothing), Field(max_length=0)]
"""A list that must be empty until what it is for is built."""


class TextPart(Fields):
    """One part of a message's content."""

    type: Literal["text"]
    text: StrictStr


class ChatMessage(Fields):
    """One message."""

    role: Literal["system", "developer", "user", "assistant", "tool"] = Field(
        description="`developer` is `system` to the model's template"
    )
    content: StrictStr | Annotated[FailFastList[TextPart], Field(max_length=MAX_PARTS)] = Field(
        description="text, or text parts, which are joined"
    )
    name: StrictStr | None = Field(
        default=None, max_length=MAX_NAME_CHARS, description="passed to the template"
    )
    tool_call_id: StrictStr | None = Field(
        default=None, max_length=MAX_NAME_CHARS, description="passed to the template"
    )
    refusal: None = Field(default=None, description=_SENT_BACK)
    audio: None = Field(default=None, description=_SENT_BACK)
    function_call: None = Field(default=None, description=_SENT_BACK)
    annotations: NothingYet = Field(default_factory=list, description=_SENT_BACK)
    tool_calls: NothingYet = Field(default_factory=list, description=_SENT_BACK)

    def for_template(self) -> dict[str, object]:
        """The message as chat templates expect it: plain text, `developer` as `system`."""
        message: dict[str, object] = {
            "role": "system" if self.role == "developer" else self.role,
            "content": self.content
            if isinstance(self.content, str)
            else "".join(part.text for part in self.content),
        }
        if self.name is not None:
            message["name"] = self.name
        if self.tool_call_id is not None:
            message["tool_call_id"] = self.tool_call_id
        return message


def _few_parts(value: object) -> object:
    """Before each is looked at: even one that is refused takes its time."""
    if not isinstance(value, list) or len(value) > MAX_MESSAGES:
        return value
    parts = sum(
        len(message["content"])
        for message in value
        if isinstance(message, dict) and isinstance(message.get("content"), list)
    )
    if parts > MAX_ALL_PARTS:
        raise ValueError(
            f"the contents have {parts} parts; at most {MAX_ALL_PARTS} are accepted in one "
            "request: join texts"
        )
    return value


Messages = Annotated[
    FailFastList[ChatMessage],
    Field(min_length=1, max_length=MAX_MESSAGES),
    BeforeValidator(_few_parts),
]
"""A conversation."""
