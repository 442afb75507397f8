"""A model's shape and real tensor bytes from what a user names: a path, or a known name. No torch.

Sources, the most exact first: a GGUF file or a folder with `config.json` and safetensors (every
tensor's bytes are counted, scales included), a bare `config.json`, a config shipped with netgain.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from netgain.cost.hf_config import shape_from_hf
from netgain.cost.known_models import known_shape, unknown_model
from netgain.cost.model_shape import ModelShape, Part
from netgain.cost.precision import Covers, StoredPart, WeightFormat, weight_format
from netgain.errors import ModelError
from netgain.hardware.device import Precision
from netgain.models.checkpoint import safetensors_files
from netgain.models.gguf_file import GGUFHeader, read_header
from netgain.models.safetensors_tensors import header_bytes
from netgain.models.store import default_store
from netgain.ops.stored_type import StoredType

_LARGEST_CONFIG_BYTES: Final = 16 << 20
_WEIGHT_FILES: Final = (".gguf", ".safetensors")
_FEWEST_BITS: Final = 1.5
"""Per parameter. No format in use has fewer: files are missing where there are."""
_PARTS: Final = (
    (Part.OTHER, r"vision|visual|audio|multi_modal|mm_projector|\bv\.blk|\bmm\."),
    (Part.NORMS, r"norm|\bln_|layernorm"),
    (Part.SHARED, r"shared_expert|shexp"),
    (Part.ROUTER, r"ffn_gate_inp|mlp\.gate\.|router|exp_probs_b|e_score_correction"),
    (Part.EXPERTS, r"_exps|experts"),
    (Part.ATTENTION, r"attn|attention|ssm"),
    (Part.MLP, r"ffn|mlp|fc1|fc2|dense_h|dense_4h"),
    (Part.HEAD, r"^output\.|lm_head"),
    (Part.EMBEDDING, r"token_embd|embed|wte|wpe|position"),
)
_GGUF_KINDS: Final = {
    "llama": "llama",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "qwen3moe": "qwen3_moe",
    "qwen2moe": "qwen2_moe",
    "gemma": "gemma",
    "gemma2": "gemma2",
    "gemma3": "gemma3_text",
    "phi3": "phi3",
    "gpt-oss": "gpt_oss",
    "deepseek2": "deepseek_v2",
    "glm4moe": "glm4_moe",
    "smollm3": "smollm3",
}


@dataclass(frozen=True, slots=True)
class SourcedModel:
    """A shape, the format its weights are in, and where both were read."""

    shape: ModelShape
    weights: WeightFormat
    source: str


def open_shape(name_or_path: str) -> SourcedModel:
    """The model a user means: a path, a model in netgain's store, or a well-known name.

    Never fetches anything. Raises `ModelError` for what cannot be found or read.
    """
    path = _existing(name_or_path)
    if path is not None:
        return _from_path(path)
    if name_or_path.startswith((".", "~", "/")) or name_or_path.endswith(_WEIGHT_FILES):
        raise ModelError(f"{name_or_path}: no such file or directory")
    stored = _in_store(name_or_path)
    if stored is not None:
        return _from_path(stored)
    shape = known_shape(name_or_path)
    if shape is None:
        raise unknown_model(name_or_path)
    return SourcedModel(shape, weight_format(shape.native_weights), shape.source)


def _existing(name: str) -> Path | None:
    try:
        path = Path(name).expanduser()
        return path if path.exists() else None
    except (OSError, RuntimeError, ValueError):  # Too long, no such user, a null character.
        return None


def _in_store(name: str) -> Path | None:
    for model in default_store().list_models():
        names = {known.casefold() for known in (model.name, *model.aliases)}
        if model.fetched and name.casefold() in names:
            return model.path
    return None


def _from_path(path: Path) -> SourcedModel:
    if path.is_dir():
        config = path / "config.json"
        if config.is_file():
            files = _weight_files(path)
            found = _from_folder(config, files)
            return found if files else _without_files(found, path)
        single = sorted(path.glob("*.gguf"))
        if len(single) == 1:
            return _from_gguf(read_header(single[0]))
        raise ModelError(f"{path}: holds no config.json, and not one .gguf file")
    if path.suffix == ".gguf":
        return _from_gguf(read_header(path))
    if path.suffix == ".json":
        return _from_folder(path, [])
    if path.suffix == ".safetensors":
        config = path.parent / "config.json"
        if not config.is_file():
            raise ModelError(f"{path}: sizes are in config.json, and there is none beside it")
        return _from_folder(config, [path])
    raise ModelError(f"{path}: give a config.json, a .gguf or .safetensors file, or their folder")


def _from_folder(config: Path, files: list[Path]) -> SourcedModel:
    values = _read_config(config)
    name = config.resolve().parent.name if config.name == "config.json" else config.stem
    shape = shape_from_hf(values, name, str(config))
    if not files:
        return SourcedModel(shape, weight_format(shape.native_weights), str(config))
    parts: Counter[Part] = Counter()
    kinds: Counter[str] = Counter()
    for file in files:
        for tensor, kind, size in _safetensors_sizes(file):
            parts[_part(tensor)] += size
            kinds[kind] += size
    most = kinds.most_common(1)[0][0] if kinds else "nothing"
    native = weight_format(shape.native_weights)
    weights = _as_stored(f"as stored ({most})", parts, shape, native.computes_in)
    return SourcedModel(shape, weights, f"{config} and the headers of {len(files)} files")


def _without_files(found: SourcedModel, folder: Path) -> SourcedModel:
    """The same, with a note if an index says that there should be files."""
    index = folder / "model.safetensors.index.json"
    if not index.exists():
        return found
    note = (
        f"{index.name} is here and none of the files it lists: weights are counted by config.json."
    )
    return replace(found, shape=replace(found.shape, notes=(*found.shape.notes, note)))


def _weight_files(folder: Path) -> list[Path]:
    """The safetensors files to count; none where none of them was fetched."""
    if not any(folder.glob("*.safetensors")):
        return []
    try:
        return list(safetensors_files(folder))
    except ModelError as error:
        raise ModelError(f"{error}, or name {folder / 'config.json'} to count by that") from error


def _read_config(path: Path) -> Mapping[str, object]:
    try:
        if path.stat().st_size > _LARGEST_CONFIG_BYTES:
            raise ModelError(f"{path}: too large for a config")
        values = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: not JSON: {error}") from error
    if not isinstance(values, dict):
        raise ModelError(f"{path}: must hold an object")
    return values


def _safetensors_sizes(path: Path) -> list[tuple[str, str, int]]:
    """(name, dtype, bytes) of every tensor."""
    begin = header_bytes(path)
    with path.open("rb") as file:
        file.seek(8)
        header = json.loads(file.read(begin - 8))
    return [
        (name, str(entry["dtype"]), entry["data_offsets"][1] - entry["data_offsets"][0])
        for name, entry in header.items()
        if name != "__metadata__"
    ]


def _from_gguf(header: GGUFHeader) -> SourcedModel:
    shape = shape_from_hf(_gguf_config(header), header.path.stem, str(header.path))
    parts: Counter[Part] = Counter()
    kinds: Counter[str] = Counter()
    for tensor in header.tensors.values():
        try:
            kind = StoredType(tensor.type_id)
        except ValueError as error:
            raise ModelError(
                f"{header.path}: tensor {tensor.name} has type {tensor.type_id}, which is not known"
            ) from error
        size = tensor.elements // kind.block_elements * kind.block_bytes
        parts[_part(tensor.name)] += size
        kinds[kind.name] += size
    most = kinds.most_common(1)[0][0] if kinds else "nothing"
    weights = _as_stored(f"as stored ({most})", parts, shape, Precision.BF16)
    return SourcedModel(shape, weights, f"the tensor table of {header.path}")


def _as_stored(
    name: str, parts: Mapping[Part, int], shape: ModelShape, computes_in: Precision
) -> WeightFormat:
    counted = shape.parameters_by_part()
    stored = tuple(
        StoredPart(part, counted.get(part, 0), parts[part]) for part in Part if parts.get(part)
    )
    bits = 8 * sum(part.bytes for part in stored) / shape.parameters
    if bits < _FEWEST_BITS:
        raise ModelError(
            f"{shape.name}: its files hold {sum(part.bytes for part in stored):,} bytes for "
            f"{shape.parameters:,} parameters: some are missing; fetch the rest, or name its "
            "config.json alone to count by that"
        )
    return WeightFormat(name, bits, bits / 8, Covers.ALL, computes_in, stored=stored)


def _part(tensor: str) -> Part:
    for part, pattern in _PARTS:
        if re.search(pattern, tensor):
            return part
    return Part.OTHER


def _gguf_config(header: GGUFHeader) -> dict[str, object]:
    """The header's sizes under the names of a `config.json`."""
    kind = str(header.metadata.get("general.architecture", "unknown"))

    def size(key: str) -> object:
        value = header.metadata.get(f"{kind}.{key}")
        # Some models state one count per layer; the largest one is the safe one.
        numbers = (
            [item for item in value if isinstance(item, int)] if isinstance(value, list) else []
        )
        return max(numbers) if numbers else value

    embedding = header.tensors.get("token_embd.weight")
    tokens = header.metadata.get("tokenizer.ggml.tokens")
    vocab = embedding.shape[0] if embedding else len(tokens) if isinstance(tokens, list) else None
    config = {
        "model_type": _GGUF_KINDS.get(kind, kind),
        "hidden_size": size("embedding_length"),
        "num_hidden_layers": size("block_count"),
        "num_attention_heads": size("attention.head_count"),
        "num_key_value_heads": size("attention.head_count_kv"),
        "head_dim": size("attention.key_length"),
        "intermediate_size": size("feed_forward_length"),
        "vocab_size": vocab,
        "max_position_embeddings": size("context_length"),
        "tie_word_embeddings": "output.weight" not in header.tensors,
        "sliding_window": size("attention.sliding_window"),
        "attention_bias": "blk.0.attn_q.bias" in header.tensors,
        "num_local_experts": size("expert_count"),
        "num_experts": size("expert_count"),
        "n_routed_experts": size("expert_count"),
        "num_experts_per_tok": size("expert_used_count"),
        "moe_intermediate_size": size("expert_feed_forward_length"),
        "n_shared_experts": size("expert_shared_count"),
        "first_k_dense_replace": size("leading_dense_block_count"),
        "q_lora_rank": size("attention.q_lora_rank"),
        "kv_lora_rank": size("attention.kv_lora_rank"),
    }
    if kind == "llama" and config["num_local_experts"]:
        config["model_type"] = "mixtral"
    if kind == "gpt-oss":
        config["intermediate_size"] = config["moe_intermediate_size"] or config["intermediate_size"]
    if kind == "deepseek2":
        rope, keys = size("rope.dimension_count"), size("attention.key_length_mla")
        keys = keys or size("attention.key_length")
        values = size("attention.value_length_mla") or size("attention.value_length")
        if isinstance(rope, int) and isinstance(keys, int):
            config |= {
                "qk_rope_head_dim": rope,
                "qk_nope_head_dim": keys - rope,
                "v_head_dim": values,
                "head_dim": None,
            }
    return {key: value for key, value in config.items() if value is not None}
