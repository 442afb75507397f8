"""Workload parameters: declared as typed fields, read from `key=value,...`."""

import dataclasses
import difflib
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, ClassVar, Final, Self

from netgain.lab.conversation import Conversation
from netgain.lab.workloads.distribution import Distribution, parse_distribution
from netgain.lab.workloads.prompt_writer import PromptWriter
from netgain.lab.workloads.workload import WorkloadError

_TRUE: Final = frozenset({"true", "yes", "on", "1"})
_FALSE: Final = frozenset({"false", "no", "off", "0"})


def parameter(key: str, default: object, about: str, *, least: float | None = None) -> Any:
    """A field of a workload: its key on the command line, its default, a line about it.

    A string default of a distribution is parsed; `least` bounds numbers from below.
    """
    metadata = {"key": key, "about": about, "least": least}
    return dataclasses.field(default=default, metadata=metadata)


def distribution(key: str, default: str, about: str) -> Any:
    """A field that is a distribution; `default` as one writes it."""
    return parameter(key, parse_distribution(default), about)


def required(key: str, about: str) -> Any:
    """A field without a default."""
    return dataclasses.field(metadata={"key": key, "about": about, "least": None})


@dataclasses.dataclass(frozen=True, slots=True)
class ParameterText:
    """One parameter as help and documentation show it; `default` is None where there is none."""

    key: str
    form: str
    default: str | None
    about: str


@dataclasses.dataclass(frozen=True)
class Parameterised(ABC):
    """Base of workloads whose fields are parameters."""

    name: ClassVar[str]
    about: ClassVar[str]

    @abstractmethod
    def conversations(self, writer: PromptWriter, seed: int) -> Iterator[Conversation]:
        """As `Workload.conversations`."""

    @property
    def size(self) -> int | None:
        """Without end."""
        return None

    @property
    def notes(self) -> tuple[str, ...]:
        """None."""
        return ()

    @property
    def distinct_by_seed(self) -> bool:
        """Made texts are."""
        return True

    @property
    def timed(self) -> bool:
        """The load says when."""
        return False

    @property
    def description(self) -> str:
        """The workload with all its parameters, as `parse_workload` reads it."""
        settings = ",".join(
            f"{_key(field)}={_shown(getattr(self, field.name))}"
            for field in dataclasses.fields(self)
            if getattr(self, field.name) is not None
        )
        return f"{self.name}:{settings}"

    @classmethod
    def parameters(cls) -> tuple[ParameterText, ...]:
        """All of them, in order."""
        types = _types(cls)
        return tuple(
            ParameterText(
                _key(field),
                _form(types[field.name]),
                None if field.default is dataclasses.MISSING else _shown(field.default),
                str(field.metadata["about"]),
            )
            for field in dataclasses.fields(cls)
        )

    @classmethod
    def parse(cls, settings: str) -> Self:
        """From `key=value,...`, or from a bare path where the first parameter is one.

        Raises `WorkloadError`: for an unknown key with the nearest known one, for a value with what
        it should be.
        """
        return cls.from_settings(split_settings(cls.name, settings, _bare_key(cls)))

    @classmethod
    def from_settings(cls, settings: Mapping[str, str]) -> Self:
        """From keys and values as text. Raises as `parse`."""
        fields = {_key(field): field for field in dataclasses.fields(cls)}
        types = _types(cls)
        values: dict[str, object] = {}
        for key, text in settings.items():
            if key not in fields:
                raise WorkloadError(
                    f"workload {cls.name} has no parameter {key!r}{nearest(key, fields)}"
                )
            field = fields[key]
            try:
                values[field.name] = _value(types[field.name], text, field.metadata["least"])
            except ValueError as error:
                raise WorkloadError(f"workload {cls.name}, parameter {key}: {error}") from None
        for key, field in fields.items():
            if field.default is dataclasses.MISSING and field.name not in values:
                raise WorkloadError(
                    f"workload {cls.name} needs {key} ({field.metadata['about']}): "
                    f"write {cls.name}:{key}=..."
                )
        return cls(**values)


def split_settings(name: str, text: str, bare_key: str | None = None) -> dict[str, str]:
    """`a=1,b=2` as a mapping. Raises `WorkloadError` for what has no `=` or comes twice.

    A first part without `=` is the value of `bare_key`, where there is one.
    """
    found: dict[str, str] = {}
    for number, part in enumerate(text.split(",") if text else ()):
        key, equals, value = part.partition("=")
        if not equals and number == 0 and bare_key is not None:
            key, value = bare_key, part
        elif not equals or not key.strip() or not value.strip():
            raise WorkloadError(f"workload {name}: {part!r} is not key=value")
        if key.strip() in found:
            raise WorkloadError(f"workload {name}: {key.strip()} is given twice")
        found[key.strip()] = value.strip()
    return found


def nearest(word: str, known: Mapping[str, object] | Sequence[str]) -> str:
    """A hint for a misspelt word: the nearest known one, and all of them."""
    near = difflib.get_close_matches(word, list(known), n=1)
    hint = f": did you mean {near[0]}?" if near else ""
    return f"{hint} (known: {', '.join(known)})" if known else hint


def _bare_key(cls: type[Parameterised]) -> str | None:
    first = next(iter(dataclasses.fields(cls)), None)
    return _key(first) if first is not None and _types(cls)[first.name] is Path else None


def _key(field: "dataclasses.Field[Any]") -> str:
    return str(field.metadata["key"])


def _types(cls: type[Parameterised]) -> dict[str, object]:
    return {name: _bare_type(kind) for name, kind in typing.get_type_hints(cls).items()}


def _bare_type(kind: object) -> object:
    """`int` of `int | None`: an optional parameter is left out, never written as none."""
    if isinstance(kind, UnionType):
        return next(part for part in typing.get_args(kind) if part is not type(None))
    return kind


def _value(kind: object, text: str, least: float | None) -> object:
    value = _PARSERS[kind](text)
    if least is not None and isinstance(value, (int, float)) and value < least:
        raise ValueError(f"{text} is below {least:g}")
    return value


def _truth(text: str) -> bool:
    lowered = text.casefold()
    if lowered not in _TRUE | _FALSE:
        raise ValueError(f"{text!r} is neither true nor false")
    return lowered in _TRUE


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a whole number") from None


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not abs(number) < float("inf"):
        raise ValueError(f"{text!r} is not a number")
    return number


def _form(kind: object) -> str:
    names = {
        int: "whole number",
        float: "number",
        bool: "true or false",
        str: "text",
        Path: "path",
        Distribution: "distribution",
    }
    return names[kind]  # type: ignore[index]


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return format(value, "g") if isinstance(value, float) else str(value)


_PARSERS: Final[dict[object, Callable[[str], object]]] = {
    bool: _truth,
    int: _integer,
    float: _number,
    str: str,
    Path: lambda text: Path(text).expanduser(),
    Distribution: parse_distribution,
}
