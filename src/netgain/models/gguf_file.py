"""Reads the header of a GGUF file: metadata and where each tensor lies. No tensor data, no torch.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md (version 2 and 3, little endian).
The tensor bytes are dequantised elsewhere with the `gguf` package; its own reader walks the
metadata element by element through numpy and takes seconds for a 50,000-token vocabulary.
"""

import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from netgain.errors import ModelError

MetadataValue: TypeAlias = int | float | bool | str | list["MetadataValue"]

_MAGIC: Final = b"GGUF"
_STRING: Final = 8
_ARRAY: Final = 9
_SCALARS: Final = {
    0: struct.Struct("<B"),
    1: struct.Struct("<b"),
    2: struct.Struct("<H"),
    3: struct.Struct("<h"),
    4: struct.Struct("<I"),
    5: struct.Struct("<i"),
    6: struct.Struct("<f"),
    7: struct.Struct("<?"),
    10: struct.Struct("<Q"),
    11: struct.Struct("<q"),
    12: struct.Struct("<d"),
}
_U32: Final = _SCALARS[4]
_U64: Final = _SCALARS[10]
_DEFAULT_ALIGNMENT: Final = 32
_MAX_DIMS: Final = 8
_MAX_NESTING: Final = 8


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor of the file.

    `shape` is in row-major order (outermost first), the reverse of how the file states it.
    `type_id` is the GGML quantisation type; `offset` is absolute in the file.
    """

    name: str
    shape: tuple[int, ...]
    type_id: int
    offset: int

    @property
    def elements(self) -> int:
        """Number of weights."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class GGUFHeader:
    """Everything in a GGUF file but the tensor data."""

    path: Path
    version: int
    metadata: dict[str, MetadataValue]
    tensors: dict[str, TensorInfo]
    data_offset: int
    file_bytes: int


class _Cursor:
    """Walks the header; any read past the end means a truncated file."""

    def __init__(self, data: bytes, path: Path) -> None:
        self.data = data
        self.path = path
        self.at = 0

    def scalar(self, kind: struct.Struct) -> int | float | bool:
        value: int | float | bool = kind.unpack_from(self.data, self.at)[0]
        self.at += kind.size
        return value

    def size(self, kind: struct.Struct = _U64) -> int:
        return int(self.scalar(kind))

    def string(self) -> str:
        length = self.size()
        end = self.at + length
        if end > len(self.data):
            raise struct.error("string runs past the end")
        raw = self.data[self.at : end]
        self.at = end
        return raw.decode("utf-8", "replace")

    def value(self, kind: int, depth: int = 0) -> MetadataValue:
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            element = self.size(_U32)
            count = self.size()
            if count > len(self.data):
                raise struct.error("array longer than the file")
            if element in _SCALARS:
                return self._scalars(_SCALARS[element], count)
            if depth >= _MAX_NESTING:
                raise ModelError(f"{self.path}: metadata is nested too deeply; file is corrupt")
            return [self.value(element, depth + 1) for _ in range(count)]
        if kind not in _SCALARS:
            raise ModelError(f"{self.path}: unknown GGUF metadata type {kind}")
        return self.scalar(_SCALARS[kind])

    def _scalars(self, kind: struct.Struct, count: int) -> list[MetadataValue]:
        block = struct.Struct(f"<{count}{kind.format[1:]}")
        values = block.unpack_from(self.data, self.at)
        self.at += block.size
        return list(values)


def read_header(path: Path) -> GGUFHeader:
    """Reads metadata and tensor table.

    Raises `ModelError` for a file that is not GGUF, is truncated, or has an unknown version.
    """
    try:
        file_bytes = path.stat().st_size
        with path.open("rb") as file:
            data = file.read(min(file_bytes, 16 << 20))
            try:
                return _parse(data, path, file_bytes)
            except struct.error:
                # A header beyond 16 MiB is legal (large vocabularies): read on, once.
                data += file.read(min(file_bytes - len(data), 1 << 30))
                return _parse(data, path, file_bytes)
    except struct.error as error:
        raise ModelError(
            f"{path}: the GGUF header is cut short ({error}); fetch the file again"
        ) from error
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from error


def _parse(data: bytes, path: Path, file_bytes: int) -> GGUFHeader:
    if data[:4] != _MAGIC:
        raise ModelError(f"{path}: not a GGUF file (it starts with {data[:4]!r})")
    cursor = _Cursor(data, path)
    cursor.at = 4
    version = cursor.size(_U32)
    if version not in (2, 3):
        raise ModelError(f"{path}: GGUF version {version} is not supported (2 and 3 are)")
    tensor_count = cursor.size()
    metadata_count = cursor.size()
    if max(tensor_count, metadata_count) > file_bytes:
        raise ModelError(f"{path}: the GGUF header is corrupt; fetch the file again")
    metadata: dict[str, MetadataValue] = {}
    for _ in range(metadata_count):
        key = cursor.string()
        metadata[key] = cursor.value(cursor.size(_U32))
    relative = [_tensor(cursor) for _ in range(tensor_count)]
    alignment = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
    if not isinstance(alignment, int) or alignment < 1:
        raise ModelError(f"{path}: general.alignment must be a positive integer")
    data_offset = -(-cursor.at // alignment) * alignment
    tensors = {
        info.name: TensorInfo(info.name, info.shape, info.type_id, data_offset + info.offset)
        for info in relative
    }
    return GGUFHeader(path, version, metadata, tensors, data_offset, file_bytes)


def _tensor(cursor: _Cursor) -> TensorInfo:
    name = cursor.string()
    dims = cursor.size(_U32)
    if dims > _MAX_DIMS:
        raise ModelError(f"{cursor.path}: tensor {name!r} has {dims} dimensions; file is corrupt")
    shape = tuple(cursor.size() for _ in range(dims))[::-1]
    type_id = cursor.size(_U32)
    return TensorInfo(name, shape, type_id, cursor.size())
