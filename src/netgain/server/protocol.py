"""The OpenAI request bodies netgain accepts for generating text, as typed values.

Every field is known here: served, ignored because it changes nothing about the answer, or not
built yet; the last kind is refused by name unless it holds its harmless default.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Self

from pydantic import BeforeValidator, Field, StrictBool, StrictInt, StrictStr

from netgain.engine.sampling_params import (
    MAX_LOGIT_BIAS,
    MAX_LOGPROBS,
    MAX_SAMPLES,
    MAX_STOP_BYTES,
    MAX_STOP_STRINGS,
    MAX_STOP_TOKEN_IDS,
    SamplingParams,
)
from netgain.server.errors import bad_request
from netgain.server.fields import MAX_NAME_CHARS, FailFastList, Fields, Number, few_fields
from netgain.server.messages import Messages
from netgain.server.prompts import (
    MAX_PROMPTS,
    PromptLimits,
    PromptText,
    parse_prompts,
    prompt_forms,
)

MAX_TIMEOUT_S: Final = 7 * 24 * 3600.0
MAX_SALT_CHARS: Final = 1024
MAX_INT64: Final = 2**63 - 1
MAX_TOKENS: Final = 2**31 - 1
"""Of a limit's number; what fits is the model's context."""

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


@dataclass(frozen=True, slots=True)
class Unbuilt:
    """A known field that is not built: the values that ask for nothing, and what to do instead."""

    harmless: tuple[object, ...]
    advice: str

    def accepts(self, value: object) -> bool:
        """Whether this value asks for nothing; null never asks for anything."""
        return value is None or any(
            value == one and isinstance(value, bool) == isinstance(one, bool)
            for one in self.harmless
        )


_NO_TOOLS: Final = "tool calling is not built yet: leave it out, or describe the tools in a message"

UNBUILT_FIELDS: Final[dict[str, Unbuilt]] = {
    "audio": Unbuilt((), "only text is generated: leave it out"),
    "best_of": Unbuilt(
        (1,), "only 1 is served: ask for n choices with logprobs, and choose among them"
    ),
    "function_call": Unbuilt(("none",), _NO_TOOLS),
    "functions": Unbuilt(([],), _NO_TOOLS),
    "modalities": Unbuilt((["text"],), 'only ["text"] is served'),
    "prediction": Unbuilt((), "predicted outputs are not built yet: leave it out"),
    "reasoning_effort": Unbuilt((), "it does not exist for this model: leave it out"),
    "response_format": Unbuilt(
        ({"type": "text"},), 'only {"type": "text"} is served: constrained output is not built yet'
    ),
    "suffix": Unbuilt(("",), "filling in the middle is not built: leave it out"),
    "tool_choice": Unbuilt(("none", "auto"), _NO_TOOLS),
    "tools": Unbuilt(([],), _NO_TOOLS),
    "verbosity": Unbuilt((), "it does not exist for this model: leave it out"),
    "web_search_options": Unbuilt((), "netgain does not search: leave it out"),
}
"""Accepted where they hold a harmless value, refused by name otherwise."""


def _not_too_many(value: object) -> object:
    """Before each entry is looked at: a body has room for a million of them."""
    if isinstance(value, dict) and len(value) > MAX_LOGIT_BIAS:
        raise ValueError(f"has {len(value)} entries; at most {MAX_LOGIT_BIAS} are accepted")
    return value


TokenIdText = Annotated[str, Field(pattern=r"^(0|[1-9][0-9]{0,9})$")]
"""A token id as a key of a JSON object."""

LogitBias = Annotated[
    dict[TokenIdText, Annotated[Number, Field(ge=-100, le=100)]],
    Field(max_length=MAX_LOGIT_BIAS),
    BeforeValidator(_not_too_many),
]


class StreamOptions(Fields):
    """`stream_options`."""

    include_usage: StrictBool = Field(
        default=False,
        description="a last chunk without choices holds the usage, the others `usage: null`",
    )
    continuous_usage_stats: StrictBool = Field(
        default=False,
        description="with `include_usage`: every chunk holds the usage so far instead of null, "
        "as vLLM's do",
    )
    include_obfuscation: StrictBool = Field(
        default=False, description="padding against traffic analysis: accepted, never added"
    )


class NetgainOptions(Fields):
    """netgain's own options, under `netgain`."""

    ledger: StrictBool = Field(
        default=False, description="the ledger in the answer, or in a stream's last event"
    )
    timeout_s: Number | None = Field(
        default=None,
        gt=0,
        le=MAX_TIMEOUT_S,
        description="deadline in seconds (null: `--request-timeout`); then 408, or an error event",
    )
    cache_salt: StrictStr = Field(
        default="",
        max_length=MAX_SALT_CHARS,
        description="prefixes are shared only between equal salts (and equal API keys)",
    )
    special_tokens_in_messages: StrictBool = Field(
        default=False,
        description="chat only: control tokens written in messages act as such, not as text",
    )


class Generation(Fields):
    """What both endpoints share."""

    model: StrictStr | None = Field(
        default=None,
        max_length=MAX_NAME_CHARS,
        description="one of the served names; another is a 404",
    )
    max_completion_tokens: StrictInt | None = Field(
        default=None, ge=1, le=MAX_TOKENS, description="as `max_tokens`, over which it wins"
    )
    n: StrictInt = Field(
        default=1,
        ge=1,
        le=MAX_SAMPLES,
        description="choices of each prompt; the prompt is computed once "
        "(with `--no-prefix-cache` once for each)",
    )
    temperature: Number = Field(
        default=1.0, ge=0, le=100, description="up to 0.00001 the likeliest token is always taken"
    )
    top_p: Number = Field(
        default=1.0, gt=0, le=1, description="keep the smallest set of tokens with this probability"
    )
    top_k: StrictInt = Field(
        default=0, ge=-1, le=MAX_INT64, description="keep the k likeliest tokens; 0 and -1: all"
    )
    min_p: Number = Field(
        default=0.0,
        ge=0,
        le=1,
        description="drop tokens below this share of the likeliest's probability",
    )
    repetition_penalty: Number = Field(
        default=1.0,
        gt=0,
        le=100,
        description="above 1: tokens of prompt and answer become less likely",
    )
    presence_penalty: Number = Field(
        default=0.0, ge=-2, le=2, description="subtracted once from tokens of the answer"
    )
    frequency_penalty: Number = Field(
        default=0.0, ge=-2, le=2, description="subtracted from tokens of the answer for each use"
    )
    logit_bias: LogitBias = Field(
        default_factory=dict, description="token id to what is added to its logit, -100 to 100"
    )
    seed: StrictInt | None = Field(
        default=None, ge=-MAX_INT64 - 1, le=MAX_INT64, description="fixes the text; null: drawn"
    )
    min_tokens: StrictInt = Field(
        default=0,
        ge=0,
        le=MAX_TOKENS,
        description="no end before so many; at most `max_tokens` and what the context leaves",
    )
    stop: (
        Annotated[StrictStr, Field(min_length=1, max_length=MAX_STOP_BYTES)]
        | Annotated[
            FailFastList[Annotated[StrictStr, Field(min_length=1, max_length=MAX_STOP_BYTES)]],
            Field(max_length=MAX_STOP_STRINGS),
        ]
        | None
    ) = Field(
        default=None,
        description="the text ends before it; one text or several, "
        f"each of at most {MAX_STOP_BYTES} bytes",
    )
    stop_token_ids: Annotated[
        FailFastList[Annotated[StrictInt, Field(ge=0, le=MAX_INT64)]],
        Field(max_length=MAX_STOP_TOKEN_IDS),
    ] = Field(
        default_factory=list, description="the text ends before these tokens of the vocabulary"
    )
    ignore_eos: StrictBool = Field(
        default=False, description="go on after the model's own end, to `max_tokens`"
    )
    prompt_logprobs: StrictInt | None = Field(
        default=None,
        ge=0,
        le=MAX_LOGPROBS,
        description="so many alternatives at each prompt token, first null; reads no cached prefix",
    )
    stream: StrictBool = Field(default=False, description="server-sent events as tokens come")
    stream_options: StreamOptions | None = Field(
        default=None, description="only with `stream: true`"
    )
    netgain: NetgainOptions = Field(
        default=NetgainOptions(), description="netgain's own options, below"
    )

    @classmethod
    def parse(cls, body: dict[str, object]) -> Self:
        """The typed request. Raises `ApiError` (400) naming the field at fault."""
        served = cls.model_fields
        body = few_fields(body, (*served, *UNBUILT_FIELDS, *IGNORED_FIELDS))
        _refuse_unbuilt(body, served)
        request = cls.checked(
            {
                name: value
                for name, value in body.items()
                if name in served or (name not in IGNORED_FIELDS and name not in UNBUILT_FIELDS)
            }
        )
        if request.stream_options is not None and not request.stream:
            raise bad_request(
                "stream_options is only allowed with stream: true: set that, or leave it out",
                "stream_options",
            )
        return request

    @property
    def include_usage(self) -> bool:
        """Whether a stream ends with the usage."""
        return self.stream_options is not None and self.stream_options.include_usage

    @property
    def running_usage(self) -> bool:
        """Whether every chunk says it."""
        options = self.stream_options
        return options is not None and options.include_usage and options.continuous_usage_stats

    @property
    def limit_field(self) -> str:
        """What the client calls the most tokens that it wants."""
        return "max_tokens" if self.max_completion_tokens is None else "max_completion_tokens"

    @property
    def limit_sent(self) -> bool:
        """Whether that is the client's own number."""
        return self.limit_field in self.model_fields_set

    def _sampling(
        self, max_tokens: int | None, logprobs: int | None, prompt_logprobs: int | None
    ) -> SamplingParams:
        """The engine's parameters. Raises `ApiError`, `InvalidRequestError` (400)."""
        if max_tokens is not None and self.min_tokens > max_tokens:
            raise bad_request(
                f"min_tokens ({self.min_tokens}) is above {self.limit_field} ({max_tokens}"
                f"{'' if self.limit_sent else ' where it is not sent'}): lower min_tokens, or send "
                f"{self.limit_field} of at least {self.min_tokens}",
                "min_tokens",
            )
        stop = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())
        return SamplingParams(
            temperature=float(self.temperature),
            top_p=float(self.top_p),
            top_k=self.top_k,
            min_p=float(self.min_p),
            repetition_penalty=float(self.repetition_penalty),
            presence_penalty=float(self.presence_penalty),
            frequency_penalty=float(self.frequency_penalty),
            logit_bias=tuple((int(id_), float(bias)) for id_, bias in self.logit_bias.items()),
            seed=self.seed,
            max_tokens=max_tokens,
            min_tokens=self.min_tokens,
            stop=stop,
            stop_token_ids=tuple(self.stop_token_ids),
            ignore_eos=self.ignore_eos,
            logprobs=logprobs,
            prompt_logprobs=prompt_logprobs,
        )


class CompletionRequest(Generation):
    """The body of `POST /v1/completions`."""

    prompt: Annotated[
        object,
        Field(
            description="a text, a list of texts, a list of token ids, or a list of such lists; "
            f"none empty, at most {MAX_PROMPTS} prompts",
            json_schema_extra=prompt_forms(MAX_PROMPTS),
        ),
    ]
    max_tokens: StrictInt = Field(
        default=16,
        ge=0,
        le=MAX_TOKENS,
        description="prompt and answer must fit the context; 0 only with `echo` or "
        "`prompt_logprobs`",
    )
    echo: StrictBool = Field(
        default=False,
        description="the prompt in front of the answer, with its logprobs if asked for",
    )
    logprobs: StrictInt | None = Field(
        default=None, ge=0, le=MAX_LOGPROBS, description="so many alternatives at each token"
    )

    def prompts(self, limits: PromptLimits) -> tuple[PromptText, ...]:
        """The prompts. Raises `ApiError` (400) for anything that is not a prompt."""
        return parse_prompts(self.prompt, limits)

    @property
    def discards_answer(self) -> bool:
        """Whether only the prompt is wanted (`max_tokens: 0`); an engine draws one token anyway."""
        return self._limit() == 0

    def sampling(self) -> SamplingParams:
        """The engine's parameters. Raises `ApiError`, `InvalidRequestError` (400)."""
        prompt_logprobs = self.prompt_logprobs
        if self.echo and prompt_logprobs is None:
            prompt_logprobs = self.logprobs
        if self.discards_answer and not self.echo and prompt_logprobs is None:
            raise bad_request(
                "max_tokens must be at least 1, or 0 with echo: true or prompt_logprobs",
                "max_tokens",
            )
        return self._sampling(max(self._limit(), 1), self.logprobs, prompt_logprobs)

    def _limit(self) -> int:
        limit = self.max_completion_tokens
        return self.max_tokens if limit is None else limit


class ChatRequest(Generation):
    """The body of `POST /v1/chat/completions`."""

    messages: Messages = Field(description="the conversation; the model's own template renders it")
    max_tokens: StrictInt | None = Field(
        default=None, ge=1, le=MAX_TOKENS, description="null: the rest of the context"
    )
    logprobs: StrictBool = Field(
        default=False, description="the logprob of each token of the answer"
    )
    top_logprobs: StrictInt = Field(
        default=0,
        ge=0,
        le=MAX_LOGPROBS,
        description="so many alternatives each; only with `logprobs`",
    )

    @property
    def discards_answer(self) -> bool:
        """Never: a chat is asked for its answer."""
        return False

    @property
    def echo(self) -> bool:
        """Never: a rendered conversation is not what the client sent."""
        return False

    def sampling(self) -> SamplingParams:
        """The engine's parameters. Raises `ApiError`, `InvalidRequestError` (400)."""
        if self.top_logprobs and not self.logprobs:
            raise bad_request(
                "top_logprobs is only allowed with logprobs: true: set that, or leave it out",
                "top_logprobs",
            )
        limit = self.max_completion_tokens
        return self._sampling(
            self.max_tokens if limit is None else limit,
            self.top_logprobs if self.logprobs else None,
            self.prompt_logprobs,
        )


def _refuse_unbuilt(body: dict[str, object], served: Mapping[str, object]) -> None:
    for name, field in UNBUILT_FIELDS.items():
        if name not in served and name in body and not field.accepts(body[name]):
            raise bad_request(
                f"this value of {name} is not supported: {field.advice}",
                name,
                "unsupported_parameter",
            )
