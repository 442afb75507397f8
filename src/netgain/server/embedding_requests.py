"""The body of `/v1/embeddings`, and its answer."""

from typing import Annotated, Final, Literal

import msgspec
from pydantic import Field, StrictInt, StrictStr

from netgain.server.fields import MAX_NAME_CHARS, Fields
from netgain.server.prompts import PromptLimits, PromptText, parse_prompts, prompt_forms

MAX_INPUTS: Final = 2048
"""OpenAI's."""


class EmbeddingRequest(Fields):
    """The body of `POST /v1/embeddings`."""

    model: StrictStr | None = Field(
        default=None, max_length=MAX_NAME_CHARS, description="one of the served names"
    )
    input: Annotated[
        object,
        Field(
            description="a text, a list of texts, a list of token ids, or a list of such lists; "
            f"none empty, at most {MAX_INPUTS} inputs, each within the context",
            json_schema_extra=prompt_forms(MAX_INPUTS),
        ),
    ]
    encoding_format: Literal["float", "base64"] = Field(
        default="float", description="numbers, or their float32 in little-endian order as base64"
    )
    dimensions: StrictInt | None = Field(
        default=None,
        ge=1,
        le=1 << 20,
        description="only the model's own size: its embeddings cannot be cut",
    )
    user: StrictStr | None = Field(default=None, description="accepted; changes nothing")

    def inputs(self, limits: PromptLimits) -> tuple[PromptText, ...]:
        """What to embed. Raises `ApiError` (400) for anything that cannot be."""
        return parse_prompts(self.input, limits.unanswered(), "input", MAX_INPUTS)


class Embedding(msgspec.Struct, frozen=True):
    """One input's embedding, of length 1 (L2)."""

    index: int
    embedding: tuple[float, ...] | str
    object: Literal["embedding"] = "embedding"


class EmbeddingUsage(msgspec.Struct, frozen=True):
    """Tokens of all inputs; nothing is generated."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingList(msgspec.Struct, frozen=True):
    """The answer of `/v1/embeddings`."""

    model: str
    data: list[Embedding]
    usage: EmbeddingUsage
    object: Literal["list"] = "list"
