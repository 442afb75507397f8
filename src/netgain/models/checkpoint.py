"""A model on local disk, resolved and described without reading its weights. No torch."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b
from pathlib import Path
from typing import Final

from netgain.errors import ModelError
from netgain.models.config import JSON, ModelConfig
from netgain.models.gguf_file import GGUFHeader, read_header
from netgain.models.gguf_tensors import gguf_tensor
from netgain.models.safetensors_tensors import header_bytes

_SAMPLED_PAGES: Final = 32
_PAGE_BYTES: Final = 64 << 10


class CheckpointKind(StrEnum):
    """How the model is stored."""

    GGUF = "gguf"
    HUGGING_FACE = "hugging face"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One model on disk.

    `path`: the GGUF file or the folder. `weight_files`: the files that hold tensors.
    `fingerprint`: equal for two checkpoints only if they are the same model; covers config and
    RoPE, tensor table, tokenizer, and weights by size and sampled pages.
    `header`: of a GGUF file (its metadata holds the tokenizer), else None.
    """

    path: Path
    kind: CheckpointKind
    config: ModelConfig
    fingerprint: str
    weight_files: tuple[Path, ...]
    header: GGUFHeader | None = field(default=None, repr=False, compare=False)

    @property
    def bos_id(self) -> int | None:
        """The token that begins a sequence, if the model has one."""
        return self.config.bos_id

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """Tokens that end generation."""
        return self.config.eos_ids


def open_checkpoint(path: Path) -> Checkpoint:
    """Describes a `.gguf` file or a Hugging Face folder.

    Raises `ModelError` for what is missing, cut short, malformed or unsupported.
    """
    if path.is_dir():
        return _open_hugging_face(path)
    if path.is_file():
        return _open_gguf(path)
    raise ModelError(f"{path}: no such file or folder")


def _open_gguf(path: Path) -> Checkpoint:
    header = read_header(path)
    for info in header.tensors.values():
        tensor = gguf_tensor(info, path)
        if tensor.offset + tensor.nbytes > header.file_bytes:
            raise ModelError(
                f"{path}: cut short: tensor {tensor.name} ends past the end of the file "
                f"({header.file_bytes:,} bytes); fetch the file again"
            )
    config = ModelConfig.from_gguf(header)
    return Checkpoint(
        path=path,
        kind=CheckpointKind.GGUF,
        config=config,
        fingerprint=_fingerprint(config, [(path, header.data_offset)], ()),
        weight_files=(path,),
        header=header,
    )


def _open_hugging_face(folder: Path) -> Checkpoint:
    generation = folder / "generation_config.json"
    config = ModelConfig.from_hf(
        _read_json(folder / "config.json"), _read_json(generation) if generation.exists() else None
    )
    files = safetensors_files(folder)
    tokenizer = folder / "tokenizer.json"
    if not tokenizer.is_file():
        raise ModelError(f"{folder}: tokenizer.json is missing")
    headers = [(file, header_bytes(file)) for file in files]
    return Checkpoint(
        path=folder,
        kind=CheckpointKind.HUGGING_FACE,
        config=config,
        fingerprint=_fingerprint(config, headers, (tokenizer,)),
        weight_files=files,
    )


def _read_json(path: Path) -> Mapping[str, JSON]:
    try:
        values = json.loads(path.read_bytes())
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: not JSON: {error}") from error
    if not isinstance(values, dict):
        raise ModelError(f"{path}: must hold a JSON object")
    return values


def safetensors_files(folder: Path) -> tuple[Path, ...]:
    """The weight files of a checkpoint: those its index names, or all where it has none.

    Raises `ModelError` where there are none, or one that is named is missing.
    """
    index = folder / "model.safetensors.index.json"
    if not index.exists():
        files = tuple(sorted(folder.glob("*.safetensors")))
        if not files:
            raise ModelError(f"{folder}: no *.safetensors files")
        return files
    weight_map = _read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise ModelError(f"{index}: weight_map is missing")
    names = sorted({str(name) for name in weight_map.values()})
    for name in names:
        # The index comes from elsewhere: a name must not lead out of the folder.
        if Path(name).name != name or not (folder / name).is_file():
            raise ModelError(f"{folder}: shard {name} is missing; fetch it again")
    return tuple(folder / name for name in names)


def _fingerprint(
    config: ModelConfig, files: Sequence[tuple[Path, int]], whole_files: Sequence[Path]
) -> str:
    """`files`: with the length of each one's header, which is read in full."""
    digest = blake2b(repr(config).encode(), digest_size=16)
    for path in whole_files:
        digest.update(path.read_bytes())
    for path, before_tensors in files:
        size = path.stat().st_size
        digest.update(size.to_bytes(8, "little"))
        with path.open("rb") as file:
            digest.update(file.read(before_tensors))
            stride = max(_PAGE_BYTES, (size - before_tensors) // _SAMPLED_PAGES)
            for offset in range(before_tensors, size, stride):
                file.seek(offset)
                digest.update(file.read(_PAGE_BYTES))
    return digest.hexdigest()
