"""Renders a model's own chat template: a jinja2 program that comes with the checkpoint.

The environment is that of `transformers` (`utils/chat_template_utils.py`), so templates written for
it behave the same. The program comes from a model file, so it runs in jinja2's sandbox with bounded
output; messages are data and are never compiled.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from netgain.errors import InvalidRequestError, ModelError

_MAX_SOURCE_CHARS: Final = 1 << 20
_MAX_OUTPUT_CHARS: Final = 64 << 20
_MAX_POWER_BITS: Final = 4096


class ChatTemplate:
    """One model's template, compiled once. Raises `ModelError` where it does not compile."""

    def __init__(self, source: str, bos_token: str | None, eos_token: str | None) -> None:
        if len(source) > _MAX_SOURCE_CHARS:
            raise ModelError(f"the chat template is too long ({len(source):,} characters)")
        try:
            self._template = _environment().from_string(source)
        except (jinja2.TemplateError, RecursionError) as error:
            raise ModelError(f"the model's chat template does not compile: {error}") from error
        self._tokens = {"bos_token": bos_token or "", "eos_token": eos_token or ""}

    def render(
        self,
        messages: Sequence[Mapping[str, object]],
        add_generation_prompt: bool = True,
        *,
        tools: Sequence[Mapping[str, object]] | None = None,
        variables: Mapping[str, object] | None = None,
    ) -> str:
        """The prompt for a conversation.

        `add_generation_prompt` opens the assistant's turn; `variables` are further names some
        templates read (`enable_thinking`). Raises `InvalidRequestError` with the template's own
        words where it refuses the messages or fails on them.
        """
        names = {
            **(variables or {}),
            **self._tokens,
            "messages": messages,
            "tools": tools,
            "documents": None,
            "add_generation_prompt": add_generation_prompt,
        }
        pieces: list[str] = []
        length = 0
        try:
            for piece in self._template.generate(names):
                pieces.append(piece)
                length += len(piece)
                if length > _MAX_OUTPUT_CHARS:
                    raise SecurityError(f"more than {_MAX_OUTPUT_CHARS:,} characters of output")
        except jinja2.TemplateError as error:
            raise InvalidRequestError(
                f"the model's chat template refuses these messages: {error.message}",
                param="messages",
            ) from error
        except Exception as error:  # foreign code: whatever it raises is about these messages
            raise InvalidRequestError(
                "the model's chat template fails on these messages: "
                f"{type(error).__name__}: {error}",
                param="messages",
            ) from error
        return "".join(pieces)


class _BoundedSandbox(ImmutableSandboxedEnvironment):
    """Also refuses `'x' * 10**9` and `10 ** 10**9`, which would take the memory in one step."""

    intercepted_binops = frozenset({"*", "**"})

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if (
            operator == "**"
            and isinstance(left, int)
            and isinstance(right, int)
            and left.bit_length() * right > _MAX_POWER_BITS
        ):
            raise SecurityError("a power is too large")
        if operator == "*":
            for items, times in ((left, right), (right, left)):
                if (
                    isinstance(items, (str, list, tuple))
                    and isinstance(times, int)
                    and len(items) * times > _MAX_OUTPUT_CHARS
                ):
                    raise SecurityError("a repeated text is too long")
        return super().call_binop(context, operator, left, right)


class _GenerationBlock(Extension):
    """`{% generation %}...{% endgeneration %}` marks training targets: here it is just its body."""

    tags = {"generation"}  # noqa: RUF012 - jinja2's own declaration is mutable

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _environment() -> ImmutableSandboxedEnvironment:
    environment = _BoundedSandbox(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, _GenerationBlock]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)


def _to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """As `transformers`: jinja2's own would escape HTML characters."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )
