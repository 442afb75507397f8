"""The bodies of `/tokenize` and `/detokenize`, and their answers."""

from typing import Annotated, Self

import msgspec
from pydantic import Field, StrictBool, StrictInt, StrictStr

from netgain.server.errors import bad_request
from netgain.server.fields import MAX_NAME_CHARS, FailFastList, Fields
from netgain.server.messages import Messages


class TokenizeRequest(Fields):
    """The body of `POST /tokenize`: `prompt` or `messages`, as the two endpoints take them."""

    model: StrictStr | None = Field(
        default=None, max_length=MAX_NAME_CHARS, description="one of the served names"
    )
    prompt: StrictStr | None = Field(
        default=None, description="a text, as `/v1/completions` takes it; may be empty"
    )
    messages: Messages | None = Field(
        default=None, description="instead of `prompt`: a conversation"
    )
    add_special_tokens: StrictBool = Field(
        default=True, description="what the model expects around a plain prompt"
    )
    add_generation_prompt: StrictBool = Field(
        default=True, description="open the assistant's turn after the messages"
    )
    special_tokens_in_messages: StrictBool = Field(
        default=False, description="control tokens written in messages act as such, not as text"
    )
    return_token_strs: StrictBool = Field(
        default=False, description="each token's own text as well"
    )

    @classmethod
    def parse(cls, body: dict[str, object]) -> Self:
        """The typed request. Raises `ApiError` (400) naming the field at fault."""
        request = cls.checked(body)
        if (request.prompt is None) == (request.messages is None):
            raise bad_request("send either prompt or messages, and not both", "prompt")
        return request


class Tokenized(msgspec.Struct, frozen=True):
    """The answer of `/tokenize`."""

    count: int
    max_model_len: int
    tokens: tuple[int, ...]
    token_strs: list[str] | None = None


class DetokenizeRequest(Fields):
    """The body of `POST /detokenize`."""

    model: StrictStr | None = Field(
        default=None, max_length=MAX_NAME_CHARS, description="one of the served names"
    )
    tokens: FailFastList[Annotated[StrictInt, Field(ge=0)]] = Field(
        description="token ids of the vocabulary, as many as fit the context; may be none"
    )
    skip_special_tokens: StrictBool = Field(default=False, description="leave control tokens out")


class Detokenized(msgspec.Struct, frozen=True):
    """The answer of `/detokenize`."""

    prompt: str
