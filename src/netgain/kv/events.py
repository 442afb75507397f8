"""What the block pool tells routers, tiers and simulators about its content."""

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class BlockStored:
    """A block with this content can be found from now on; `parent_hash` is None for a first."""

    group: int
    block_hash: bytes
    parent_hash: bytes | None


@dataclass(frozen=True, slots=True)
class BlockRemoved:
    """The content is gone from the pool."""

    group: int
    block_hash: bytes


KVEvent: TypeAlias = BlockStored | BlockRemoved
