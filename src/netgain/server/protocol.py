"""The OpenAI request bodies netgain accepts, as typed values.

Every field is known here: served, ignored because it changes nothing about the answer, or not
built yet; the last kind is refused by name unless it holds its harmless default.
"""

from collections.abc import Callable
from typing import Annotated, Final, Literal, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    model_validator,
)
from pydantic import ValidationError as PydanticError

from netgain.engine.sampling_params import SamplingParams
from netgain.server.body import json_type
from netgain.server.errors import ApiError, bad_request

MAX_PROMPTS: Final = 128
MAX_MESSAGES: Final = 4096
MAX_PARTS: Final = 1024
MAX_TIMEOUT_S: Final = 7 * 24 * 3600.0
MAX_SALT_CHARS: Final = 1024
MAX_FIELDS: Final = 64
"""More than any object here has."""

IGNORED_FIELDS: Final = frozenset(
    {
        "metadata",
        "parallel_tool_calls",
        "prompt_cache_key",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
        "user",
    }
)


def _among(*harmless: object) -> Callable[[object], bool]:
    def test(value: object) -> bool:
        return value is None or any(
            value == default and isinstance(value, bool) == isinstance(default, bool)
            for default in harmless
        )

    return test


UNBUILT_FIELDS: Final[dict[str, Callable[[object], bool]]] = {
    "audio": _among(),
    "best_of": _among(1),
    "echo": _among(False),
    "frequency_penalty": _among(0),
    "function_call": _among("none"),
    "functions": _among([]),
    "logit_bias": _among({}),
    "logprobs": _among(False),
    "min_p": _among(0),
    "min_tokens": _among(0),
    "modalities": _among(["text"]),
    "n": _among(1),
    "prediction": _among(),
    "presence_penalty": _among(0),
    "reasoning_effort": _among(),
    "repetition_penalty": _among(1),
    "response_format": _among({"type": "text"}),
    "suffix": _among(""),
    "tool_choice": _among("none", "auto"),
    "tools": _among([]),
    "top_logprobs": _among(0),
    "verbosity": _among(),
    "web_search_options": _among(),
}
"""Known fields that are not built yet, and which of their values ask for nothing."""

PromptText = str | tuple[int, ...]
"""One prompt: text, or token ids as they are."""


Item = TypeVar("Item")
FailFastList = Annotated[list[Item], Field(fail_fast=True)]
"""A list whose first bad item ends the validation: a body has room for millions of them."""

Number = Annotated[float, Field(strict=True)]
"""A JSON number, with or without a fraction; no string, no boolean."""


class _Fields(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _one_unknown_field_is_enough(cls, value: object) -> object:
        """Each unknown field is an error of its own, and a body has room for a million of them."""
        if not isinstance(value, dict) or len(value) <= MAX_FIELDS:
            return value
        few = {name: value[name] for name in cls.model_fields if name in value}
        unknown = next(name for name in value if name not in few)
        return {**few, unknown: value[unknown]}


class _Body(_Fields):
    model_config = ConfigDict(allow_inf_nan=False)


class StreamOptions(_Body):
    """`stream_options`."""

    include_usage: StrictBool = False
    include_obfuscation: StrictBool = False
    """OpenAI's padding against traffic analysis: accepted, never added."""


class NetgainOptions(_Body):
    """netgain's own options, under `netgain`."""

    ledger: StrictBool = False
    timeout_s: Number | None = Field(default=None, gt=0, le=MAX_TIMEOUT_S)
    cache_salt: StrictStr = Field(default="", max_length=MAX_SALT_CHARS)


class _Generation(_Body):
    """What both endpoints share."""

    model: StrictStr | None = None
    max_tokens: StrictInt | None = None
    temperature: Number | None = None
    top_p: Number | None = None
    top_k: StrictInt | None = None
    seed: StrictInt | None = None
    stop: StrictStr | FailFastList[StrictStr] | None = None
    stop_token_ids: FailFastList[StrictInt] | None = None
    ignore_eos: StrictBool | None = None
    stream: StrictBool | None = None
    stream_options: StreamOptions | None = None
    netgain: NetgainOptions = NetgainOptions()

    @classmethod
    def parse(cls, body: dict[str, object]) -> Self:
        """The typed request. Raises `ApiError` (400) naming the field at fault."""
        _refuse_unbuilt(body)
        known = {
            name: value
            for name, value in body.items()
            if name not in IGNORED_FIELDS and name not in UNBUILT_FIELDS
        }
        if known.get("netgain", 0) is None:
            del known["netgain"]
        try:
            request = cls.model_validate(known)
        except PydanticError as error:
            raise _first_fault(error) from error
        if request.stream_options is not None and not request.stream:
            raise bad_request("stream_options is only allowed with stream: true", "stream_options")
        return request

    @property
    def include_usage(self) -> bool:
        """Whether a stream ends with the usage."""
        return self.stream_options is not None and self.stream_options.include_usage

    def sampling(self, max_tokens: int | None) -> SamplingParams:
        """The engine's parameters. Raises `InvalidRequestError` for values out of range."""
        stop = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())
        return SamplingParams(
            temperature=1.0 if self.temperature is None else float(self.temperature),
            top_p=1.0 if self.top_p is None else float(self.top_p),
            top_k=self.top_k or 0,
            seed=self.seed,
            max_tokens=max_tokens,
            stop=stop,
            stop_token_ids=tuple(self.stop_token_ids or ()),
            ignore_eos=bool(self.ignore_eos),
        )


class CompletionRequest(_Generation):
    """The body of `POST /v1/completions`."""

    DEFAULT_MAX_TOKENS: Final = 16
    """OpenAI's."""

    prompt: Annotated[
        object,
        Field(
            description="A text, a list of texts, a list of token ids, or a list of such lists.",
            json_schema_extra={
                "anyOf": [
                    {"type": "string"},
                    {"type": "array", "items": {"type": "string"}},
                    {"type": "array", "items": {"type": "integer"}},
                    {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
                ]
            },
        ),
    ]

    def prompts(self, max_prompt_tokens: int) -> tuple[PromptText, ...]:
        """The prompts, one a choice.

        A list longer than `max_prompt_tokens` is refused before its ids are looked at. Raises
        `ApiError` (400) for anything that is not a prompt.
        """
        return parse_prompts(self.prompt, max_prompt_tokens)

    def limit(self) -> int | None:
        """Most tokens to generate."""
        return self.DEFAULT_MAX_TOKENS if self.max_tokens is None else self.max_tokens


class TextPart(_Body):
    """One part of a message's content."""

    type: Literal["text"]
    text: StrictStr


class ChatMessage(_Fields):
    """One message. Fields the templates read beyond these (`name`, `tool_call_id`) pass through."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: StrictStr | Annotated[FailFastList[TextPart], Field(max_length=MAX_PARTS)]
    name: StrictStr | None = None
    tool_call_id: StrictStr | None = None
    refusal: None = None

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


class ChatRequest(_Generation):
    """The body of `POST /v1/chat/completions`."""

    messages: FailFastList[ChatMessage] = Field(min_length=1, max_length=MAX_MESSAGES)
    max_completion_tokens: StrictInt | None = None

    def limit(self) -> int | None:
        """Most tokens to generate; None: as many as the context allows."""
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens


def parse_prompts(value: object, max_prompt_tokens: int) -> tuple[PromptText, ...]:
    """`prompt` in each of its four forms. Raises `ApiError` (400) for anything else."""
    if isinstance(value, str):
        return (_checked(value, "prompt", max_prompt_tokens),)
    if not isinstance(value, list):
        raise bad_request(
            f"prompt must be a string, a list of strings or token ids, not {json_type(value)}",
            "prompt",
        )
    if not value:
        raise bad_request("prompt must not be an empty list", "prompt")
    if isinstance(value[0], int):
        return (_checked(value, "prompt", max_prompt_tokens),)
    if len(value) > MAX_PROMPTS:
        raise bad_request(
            f"prompt holds {len(value)} prompts; at most {MAX_PROMPTS} are accepted", "prompt"
        )
    kind = type(value[0])
    if kind not in (str, list) or any(type(item) is not kind for item in value):
        raise bad_request(
            "prompt must be a list of strings, of token ids, or of lists of token ids", "prompt"
        )
    return tuple(
        _checked(item, f"prompt[{at}]", max_prompt_tokens) for at, item in enumerate(value)
    )


def _checked(value: object, where: str, max_prompt_tokens: int) -> PromptText:
    if not value:
        raise bad_request(f"{where} must not be empty", "prompt")
    if isinstance(value, str):
        return value
    assert isinstance(value, list)
    if len(value) > max_prompt_tokens:
        raise prompt_too_long(len(value), max_prompt_tokens)
    if any(type(id_) is not int for id_ in value):
        raise bad_request(f"{where} must hold token ids (integers) only", "prompt")
    return tuple(value)


def prompt_too_long(tokens: int, limit: int, at_least: bool = False) -> ApiError:
    """400: no room for the prompt and one token more."""
    count = f"at least {tokens}" if at_least else f"{tokens}"
    return bad_request(
        f"the prompt has {count} tokens; at most {limit} fit into this model's context of "
        f"{limit + 1} with room for one token of answer: shorten it",
        "prompt",
        "context_length_exceeded",
    )


def _refuse_unbuilt(body: dict[str, object]) -> None:
    for name, is_harmless in UNBUILT_FIELDS.items():
        if name in body and not is_harmless(body[name]):
            raise bad_request(
                f"{name} is not supported by this version of netgain: leave it out",
                name,
                "unsupported_parameter",
            )


def _first_fault(error: PydanticError) -> ApiError:
    """One error, in words, for the first field at fault; the input itself is not repeated."""
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    # Where a field may be one of several types, each reports: the one that got furthest is meant.
    # A list that is too long was at least a list.
    fault = max(faults, key=lambda fault: (len(fault["loc"]), fault["type"] == "too_long"))
    where = "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}"
        for part in fault["loc"]
        if not _is_type_name(part)
    ).lstrip(".")
    match fault["type"]:
        case "extra_forbidden":
            return bad_request(f"unknown field: {where}", where, "unknown_parameter")
        case "missing":
            return bad_request(f"{where} is missing", where, "missing_required_parameter")
        case _:
            words = fault["msg"].replace("dictionary or instance of ChatMessage", "object")
            return bad_request(f"{where}: {words[:1].lower()}{words[1:]}", where)


def _is_type_name(part: int | str) -> bool:
    return isinstance(part, str) and (part in ("str", "float", "int") or part.startswith("list["))
