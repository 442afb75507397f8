"""Typed access to a loose `config.json`; every error names the key at fault."""

from collections.abc import Mapping

from netgain.errors import ModelError


class ConfigFields:
    """Reads values of a config by key, or by the first of several keys that is there."""

    def __init__(self, values: Mapping[str, object], where: str) -> None:
        self._values = values
        self._where = where

    def has(self, key: str) -> bool:
        """Whether the key is there and not null."""
        return self._values.get(key) is not None

    def integer(self, *keys: str, default: int | None = None) -> int:
        """A whole number. Raises `ModelError` where it is missing, or is none."""
        value = self._first(keys, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong(keys, value, "a whole number")
        if not 0 <= value < 1 << 40:
            raise self._wrong(keys, value, "a size")
        return value

    def maybe_integer(self, *keys: str) -> int | None:
        """A whole number, or None where no key is there."""
        return self.integer(*keys) if any(self.has(key) for key in keys) else None

    def boolean(self, *keys: str, default: bool) -> bool:
        """True or false. Raises `ModelError` for anything else."""
        value = self._first(keys, default)
        if not isinstance(value, bool):
            raise self._wrong(keys, value, "true or false")
        return value

    def text(self, *keys: str, default: str | None = None) -> str:
        """A string. Raises `ModelError` for anything else."""
        value = self._first(keys, default)
        if not isinstance(value, str):
            raise self._wrong(keys, value, "text")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings; empty where the key is missing."""
        value = self._values.get(key)
        items = [] if value is None else value
        if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
            raise self._wrong((key,), value, "a list of texts")
        return tuple(items)

    def integers(self, key: str) -> tuple[int, ...]:
        """A list of whole numbers; empty where the key is missing."""
        value = self._values.get(key)
        items = [] if value is None else value
        if not isinstance(items, list) or not all(type(item) is int for item in items):
            raise self._wrong((key,), value, "a list of whole numbers")
        return tuple(items)

    def nested(self, key: str) -> "ConfigFields":
        """The object under a key; an empty one where it is missing."""
        value = self._values.get(key)
        value = {} if value is None else value
        if not isinstance(value, dict):
            raise self._wrong((key,), value, "an object")
        return ConfigFields(value, f"{self._where}: {key}")

    def with_defaults(self, defaults: Mapping[str, object]) -> "ConfigFields":
        """These values, and `defaults` for the keys that are missing or null."""
        stated = {key: value for key, value in self._values.items() if value is not None}
        return ConfigFields({**defaults, **stated}, self._where)

    def _first(self, keys: tuple[str, ...], default: object) -> object:
        for key in keys:
            if self._values.get(key) is not None:
                return self._values[key]
        if default is None:
            raise ModelError(f"{self._where}: {keys[0]} is missing")
        return default

    def _wrong(self, keys: tuple[str, ...], value: object, expected: str) -> ModelError:
        key = next((key for key in keys if self.has(key)), keys[0])
        return ModelError(f"{self._where}: {key} must be {expected}, not {value!r:.80}")
