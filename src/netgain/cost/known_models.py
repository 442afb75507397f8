"""Well-known models by name: their configs ship with the package."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from netgain.cost.hf_config import shape_from_hf
from netgain.cost.model_shape import ModelShape
from netgain.errors import ModelError
from netgain.hardware.names import by_name, nearest, normalised

_DATA: Final = Path(__file__).parent / "data" / "models.toml"


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    repository: str
    config: dict[str, object]
    aliases: tuple[str, ...] = ()
    weights: str | None = None


class _File(msgspec.Struct, forbid_unknown_fields=True):
    model: tuple[_Entry, ...]


@dataclass(frozen=True, slots=True)
class KnownModel:
    """One shipped config: its shape, and the other names it answers to."""

    name: str
    repository: str
    aliases: tuple[str, ...]
    shape: ModelShape


@cache
def known_models() -> tuple[KnownModel, ...]:
    """Every shipped model, in the order of the file."""
    entries = msgspec.convert(tomllib.loads(_DATA.read_text("utf-8")), _File).model
    return tuple(_known(entry) for entry in entries)


def known_shape(name: str) -> ModelShape | None:
    """The shape of a well-known model; None where the name is not known.

    Case and punctuation do not matter; `org/name` is as good as `name`.
    """
    index = _index()
    return index.get(normalised(name)) or index.get(normalised(name.rpartition("/")[2]))


def unknown_model(name: str) -> ModelError:
    """The error for a name nothing answers to, with the nearest names."""
    near = nearest(name, {key: shape.name for key, shape in _index().items()})
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    names = ", ".join(model.name for model in known_models())
    return ModelError(
        f"unknown model {name[:60]!r}: {hint}Give a config.json, a folder that holds one, a .gguf "
        f"or .safetensors file, or one of {names}"
    )


@cache
def _index() -> dict[str, ModelShape]:
    return by_name(
        (known, model.shape)
        for model in known_models()
        for known in (model.name, model.repository, *model.aliases)
    )


def _known(entry: _Entry) -> KnownModel:
    config = dict(entry.config)
    if entry.weights is not None:
        block = {"weight_block_size": [128, 128]} if entry.weights == "fp8-block" else {}
        method = "fp8" if entry.weights == "fp8-block" else entry.weights
        config["quantization_config"] = {"quant_method": method, **block}
    shape = shape_from_hf(config, entry.name, f"config.json of {entry.repository}")
    return KnownModel(entry.name, entry.repository, entry.aliases, shape)
