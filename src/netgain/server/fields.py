"""What every request body shares: strict fields, one fault at a time, bounded work on bad input."""

from collections.abc import Collection
from typing import Annotated, Final, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic import ValidationError as PydanticError

from netgain.server.errors import ApiError, bad_request

MAX_FIELDS: Final = 64
"""More than any object here has."""

MAX_SHOWN_CHARS: Final = 64
"""Of a field's name in an error: the client chose it."""

MAX_NAME_CHARS: Final = 512
"""Of a model's name, a participant's name, an id."""

Item = TypeVar("Item")
FailFastList = Annotated[list[Item], Field(fail_fast=True)]
"""A list whose first bad item ends the validation: a body has room for millions of them."""

Number = Annotated[float, Field(strict=True)]
"""A JSON number, with or without a fraction; no string, no boolean."""


class Fields(BaseModel):
    """An object of a request body: unknown fields are refused, numbers are finite."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _null_is_the_default(cls, value: object) -> object:
        """A field that may be left out may be null as well, which means the same.

        And one unknown field is enough: each is an error of its own, and a body has room for a
        million of them.
        """
        if not isinstance(value, dict):
            return value
        fields = cls.model_fields
        return {
            name: given
            for name, given in few_fields(value, fields).items()
            if given is not None or name not in fields or fields[name].is_required()
        }

    @classmethod
    def checked(cls, body: dict[str, object]) -> Self:
        """The typed request. Raises `ApiError` (400) naming the field at fault."""
        try:
            return cls.model_validate(body)
        except PydanticError as error:
            raise first_fault(error) from error


def few_fields(given: dict[str, object], known: Collection[str]) -> dict[str, object]:
    """The object itself; of one with far too many fields the known ones and one of the others."""
    if len(given) <= MAX_FIELDS:
        return given
    few = {name: given[name] for name in known if name in given}
    unknown = next(name for name in given if name not in few)
    return {**few, unknown: given[unknown]}


def first_fault(error: PydanticError) -> ApiError:
    """One error, in words, for the first field at fault; the input itself is not repeated."""
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    # Where a field may be one of several types, each reports: the one that got furthest is meant.
    # A list that is too long was at least a list.
    fault = max(faults, key=lambda fault: (len(fault["loc"]), fault["type"] == "too_long"))
    where = "".join(
        f"[{part}]" if isinstance(part, int) else f".{part[:MAX_SHOWN_CHARS]}"
        for part in fault["loc"]
        if not _is_type_name(part)
    ).lstrip(".")
    match fault["type"]:
        case "extra_forbidden":
            return bad_request(
                f"unknown field: {where}; leave it out (docs/http-api.md lists what there is)",
                where,
                "unknown_parameter",
            )
        case "missing":
            return bad_request(f"{where} is missing", where, "missing_required_parameter")
        case _:
            return bad_request(f"{where}: {_words(fault['type'], fault['msg'])}", where)


def _words(kind: str, said: str) -> str:
    """What is wrong, in JSON's words where the library speaks of Python or of itself."""
    match kind:
        case "model_type" | "model_attributes_type" | "dict_type":
            return "must be an object"
        case "none_required":
            return "must be null, or left out"
        case "string_pattern_mismatch":
            return "the key must be a token id: a whole number in quotes"
        case "int_parsing_size":
            return "must fit in 64 bits"
    words = said.removeprefix("Value error, ").replace(" after validation", "")
    words = words.replace("Dictionary", "Object")
    return f"{words[:1].lower()}{words[1:]}"


def _is_type_name(part: int | str) -> bool:
    """Where a field may be one of several types, pydantic names them in the location."""
    return isinstance(part, str) and (
        part in ("str", "float", "int", "bool", "[key]")
        or part.startswith(("constrained-", "list[", "function-"))
    )
