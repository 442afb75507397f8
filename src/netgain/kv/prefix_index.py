"""Finds blocks by the tokens they hold and everything before them.

A key is a chained hash of (fingerprint, salt, extra fields), parent and the block's token ids.
A hash only proposes: a hit also needs the stored token ids to be equal and the stored parent to be
the very block that matched before, so that no collision, however made, returns wrong KV.
Traces that hold block hashes instead of tokens use `opaque_keys`.
"""

import hashlib
import itertools
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from netgain.kv.block_pool import BlockId

HashFunction: TypeAlias = Callable[[bytes], bytes]
_DIGEST_BYTES: Final = 16


def blake2b(data: bytes) -> bytes:
    """The default hash: 16 bytes."""
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()


class PrefixRoot(NamedTuple):
    """What two prefixes must share before their tokens are even compared.

    `fingerprint` is the model's (weights, tokenizer, RoPE, dtype, layout); `salt` isolates
    tenants; `extra` holds typed further fields (an adapter, an image's digest).
    """

    fingerprint: str
    salt: str = ""
    extra: tuple[str, ...] = ()

    def digest(self, hash_function: HashFunction) -> bytes:
        """The hash that the first block's key chains to; unambiguous in its fields."""
        fields = (self.fingerprint, self.salt, *self.extra)
        encoded = [field.encode("utf-8", "surrogatepass") for field in fields]
        return hash_function(b"".join(len(e).to_bytes(8, "little") + e for e in encoded))


class BlockKey(NamedTuple):
    """Names the content of one full block: its chained hash and its own token ids as bytes."""

    hash: bytes
    content: bytes


class KeyChain:
    """The keys of one request's full blocks, extended as its tokens become known."""

    def __init__(
        self, root: PrefixRoot, block_tokens: int, hash_function: HashFunction = blake2b
    ) -> None:
        self.root = root
        self.keys: list[BlockKey] = []
        self._block_tokens = block_tokens
        self._hash = hash_function
        self._parent = root.digest(hash_function)

    def extend(self, tokens: Sequence[int]) -> list[BlockKey]:
        """Takes the request's tokens so far (all of them) and returns the keys of full blocks."""
        size = self._block_tokens
        for block in range(len(self.keys), len(tokens) // size):
            self._append(array("q", tokens[block * size : (block + 1) * size]).tobytes())
        return self.keys

    def extend_opaque(self, ids: Iterable[str]) -> list[BlockKey]:
        """Appends one block per opaque id, for traces that hold block hashes, not tokens."""
        for opaque in ids:
            self._append(b"opaque:" + opaque.encode())
        return self.keys

    def _append(self, content: bytes) -> None:
        self._parent = self._hash(self._parent + content)
        self.keys.append(BlockKey(self._parent, content))


ParentLink: TypeAlias = int | PrefixRoot
"""What an entry hangs on: the root, or the serial number of the entry above it."""


class Stored(NamedTuple):
    """What became of a block offered to the index.

    `link` is what the next position hangs on. `displaced`: an entry of the same hash that could
    not be reached any more made room.
    """

    link: ParentLink | None
    is_new: bool
    displaced: bool


@dataclass(frozen=True, slots=True)
class _Entry:
    block: BlockId
    content: bytes
    parent: ParentLink
    serial: int


class PrefixIndex:
    """From keys to the blocks of one pool that hold their content."""

    def __init__(self) -> None:
        self._by_hash: dict[bytes, _Entry] = {}
        self._hash_of: dict[BlockId, bytes] = {}
        self._serials = itertools.count(1)

    def __len__(self) -> int:
        return len(self._by_hash)

    def __contains__(self, block: BlockId) -> bool:
        return block in self._hash_of

    def find(self, root: PrefixRoot, keys: Sequence[BlockKey]) -> tuple[list[BlockId], ParentLink]:
        """The blocks of the longest indexed prefix of `keys`, and the link its children need."""
        found: list[BlockId] = []
        parent: ParentLink = root
        for key in keys:
            entry = self._by_hash.get(key.hash)
            if entry is None or entry.content != key.content or entry.parent != parent:
                break
            found.append(entry.block)
            parent = entry.serial
        return found, parent

    def store(
        self,
        parent: ParentLink,
        keys: Sequence[BlockKey],
        position: int,
        block: BlockId,
    ) -> Stored:
        """Indexes `block` as the content of `keys[position]` under the entry `parent`.

        The same content under another block is linked, not stored again; if the parent is gone
        from the index the block could never be found, and there is no link.
        """
        if position:
            above = self._by_hash.get(keys[position - 1].hash)
            if above is None or above.serial != parent:
                return Stored(None, is_new=False, displaced=False)
        key = keys[position]
        seen = self._by_hash.get(key.hash)
        if seen is not None:
            if seen.content == key.content and seen.parent == parent:
                return Stored(seen.serial, is_new=False, displaced=False)
            del self._hash_of[seen.block]
        serial = next(self._serials)
        self._by_hash[key.hash] = _Entry(block, key.content, parent, serial)
        self._hash_of[block] = key.hash
        return Stored(serial, is_new=True, displaced=seen is not None)

    def forget(self, block: BlockId) -> bytes | None:
        """Removes a block whose content is about to be overwritten; its hash if it was indexed."""
        key_hash = self._hash_of.pop(block, None)
        if key_hash is not None:
            del self._by_hash[key_hash]
        return key_hash

    def blocks(self) -> list[BlockId]:
        """Every indexed block."""
        return list(self._hash_of)
