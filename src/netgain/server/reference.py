"""Tables of the accepted fields, made from the types that accept them.

`python -m netgain.server.reference FILE...` rewrites what stands in each Markdown file between
`<!-- fields: NAME -->` and `<!-- end -->`; a test compares.
"""

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic_core import PydanticUndefined

from netgain.server.embedding_requests import EmbeddingRequest
from netgain.server.fields import Fields
from netgain.server.messages import ChatMessage, TextPart
from netgain.server.protocol import (
    IGNORED_FIELDS,
    UNBUILT_FIELDS,
    ChatRequest,
    CompletionRequest,
    Generation,
    NetgainOptions,
    StreamOptions,
)
from netgain.server.token_requests import DetokenizeRequest, TokenizeRequest

_MODELS: Final[tuple[type[Fields], ...]] = (
    Generation,
    CompletionRequest,
    ChatRequest,
    ChatMessage,
    TextPart,
    StreamOptions,
    NetgainOptions,
    EmbeddingRequest,
    TokenizeRequest,
    DetokenizeRequest,
)
_BLOCK: Final = re.compile(r"(<!-- fields: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_POWERS: Final[dict[int, str]] = {2**power - 1: f"2^{power} - 1" for power in (31, 63)} | {
    -(2**63): "-2^63"
}

Schema = Mapping[str, Any]


def tables() -> dict[str, str]:
    """Every table by the name that a page calls it by."""
    made = {model.__name__: _field_table(model) for model in _MODELS}
    return made | {"Ignored": _ignored(), "Unbuilt": _unbuilt()}


def rewritten(page: str) -> str:
    """The page with its tables as they should be. Raises `KeyError` for a name of no table."""
    made = tables()
    return _BLOCK.sub(lambda block: f"{block[1]}\n{made[block[2]]}\n{block[3]}", page)


def _field_table(model: type[Fields]) -> str:
    """A row for each field, but for those that a base class's table has already."""
    schema = model.model_json_schema(ref_template="{model}")
    inherited = {
        name
        for base in model.__mro__[1:]
        if issubclass(base, Fields) and base in _MODELS
        for name, field in base.model_fields.items()
        if model.model_fields[name] is field or repr(model.model_fields[name]) == repr(field)
    }
    lines = ["| field | form | default | what |", "|---|---|---|---|"]
    for name, field in model.model_fields.items():
        if name in inherited:
            continue
        default = field.get_default(call_default_factory=True, validated_data={})
        shown = "required" if default is PydanticUndefined else f"`{_json(default)}`"
        form = _form(schema["properties"][name])
        lines.append(f"| `{name}` | {form} | {shown} | {field.description or ''} |")
    return "\n".join(lines) + "\n"


def _json(value: object) -> str:
    return "{}" if isinstance(value, Fields) else json.dumps(value)


def _form(schema: Schema) -> str:
    """A field's type and bounds in words; null, which any optional field may be, is left out."""
    if "anyOf" in schema:
        forms = [_form(one) for one in schema["anyOf"] if one != {"type": "null"}]
        return " or ".join(dict.fromkeys(forms))
    if "$ref" in schema:
        return f"`{schema['$ref']}`"
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    kind = str(schema.get("type", "any"))
    match kind:
        case "integer" | "number":
            return kind + _range(schema, "minimum", "maximum", "")
        case "string":
            return "text" + _range(schema, "minLength", "maxLength", " characters")
        case "array" if schema.get("maxItems") == 0:
            return "empty list"
        case "array":
            many = _range(schema, "minItems", "maxItems", "")
            return f"list{many} of ({_form(schema['items'])})"
        case "object":
            (values,) = schema.get("patternProperties", {"": {"type": "any"}}).values()
            many = _range(schema, "minProperties", "maxProperties", " entries")
            return f"object{many} of ({_form(values)})"
        case _:
            return kind


def _range(schema: Schema, low: str, high: str, unit: str) -> str:
    least, most = schema.get(low), schema.get(high)
    above = schema.get("exclusiveMinimum")
    parts = []
    if above is not None:
        parts.append(f"above {_number(above)}")
    if least is not None and most is not None:
        parts.append(f"{_number(least)} to {_number(most)}")
    elif least is not None:
        parts.append(f"at least {_number(least)}")
    elif most is not None:
        parts.append(f"at most {_number(most)}")
    return f", {', '.join(parts)}{unit}" if parts else ""


def _number(value: float) -> str:
    if value in _POWERS:
        return _POWERS[int(value)]
    return f"{value:,g}" if isinstance(value, float) else f"{value:,}"


def _ignored() -> str:
    return ", ".join(f"`{name}`" for name in sorted(IGNORED_FIELDS)) + "\n"


def _unbuilt() -> str:
    lines = ["| field | accepted | otherwise |", "|---|---|---|"]
    for name, field in UNBUILT_FIELDS.items():
        accepted = ", ".join(f"`{json.dumps(value)}`" for value in (None, *field.harmless))
        lines.append(f"| `{name}` | {accepted} | {field.advice} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Rewrites the files named on the command line."""
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(rewritten(path.read_text("utf-8")), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
