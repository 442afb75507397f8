"""Block tables of all requests over all KV groups: who holds which block, and what is cached.

One pool, one prefix index and one block table per request *and group*; every group has the same
block size in tokens, so that block i of every table covers the same positions.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from netgain.kv.block_pool import BlockId, BlockPool
from netgain.kv.events import BlockRemoved, BlockStored, KVEvent
from netgain.kv.prefix_index import BlockKey, KeyChain, ParentLink, PrefixIndex


@dataclass(frozen=True, slots=True)
class PrefixHit:
    """Cached blocks of a prefix: `blocks[group]`, all of one length.

    `unheld` of them are free now, in the group with most; `links` is where children are indexed.
    """

    blocks: tuple[tuple[BlockId, ...], ...]
    unheld: int
    links: tuple[ParentLink | None, ...]

    @property
    def count(self) -> int:
        """Blocks per group."""
        return len(self.blocks[0])


@dataclass(slots=True)
class _Holding:
    """What one request holds."""

    tables: list[list[BlockId]]
    published: int
    links: list[ParentLink | None]


@dataclass(slots=True)
class KVManager:
    """Allocation and prefix caching for one engine.

    `pool_blocks` counts blocks per group without scratch. With `prefix_cache` off nothing is ever
    found or indexed. `record_events` keeps `KVEvent`s until `take_events`.
    """

    groups: int
    pool_blocks: int
    block_tokens: int
    prefix_cache: bool = True
    record_events: bool = False
    evicted: int = 0
    _pools: list[BlockPool] = field(init=False)
    _indexes: list[PrefixIndex] = field(init=False)
    _held: dict[str, _Holding] = field(init=False, default_factory=dict)
    _events: list[KVEvent] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self._pools = [BlockPool(self.pool_blocks + 1) for _ in range(self.groups)]
        self._indexes = [PrefixIndex() for _ in range(self.groups)]

    @property
    def free_blocks(self) -> int:
        """Blocks every group can still hand out."""
        return min(pool.free for pool in self._pools)

    @property
    def used_blocks(self) -> int:
        """Blocks held, in the fullest group."""
        return max(pool.used for pool in self._pools)

    def blocks_for(self, tokens: int) -> int:
        """Blocks that hold `tokens` tokens."""
        return -(-tokens // self.block_tokens)

    def find(self, chain: KeyChain, keys: Sequence[BlockKey]) -> PrefixHit:
        """The longest prefix of `keys` cached in every group. Holds nothing yet."""
        if not self.prefix_cache:
            return PrefixHit(((),) * self.groups, 0, (None,) * self.groups)
        found = [index.find(chain.root, keys) for index in self._indexes]
        length = min(len(blocks) for blocks, _ in found)
        if any(len(blocks) > length for blocks, _ in found):
            found = [index.find(chain.root, keys[:length]) for index in self._indexes]
        blocks = tuple(tuple(group) for group, _ in found)
        unheld = max(
            sum(1 for block in group if pool.references(block) == 0)
            for group, pool in zip(blocks, self._pools, strict=True)
        )
        return PrefixHit(blocks, unheld, tuple(link for _, link in found))

    def admit(self, request: str, hit: PrefixHit) -> None:
        """Opens the request's tables with the hit's blocks, held by it from now on."""
        if request in self._held:
            raise ValueError(f"{request} holds blocks already")
        for pool, blocks in zip(self._pools, hit.blocks, strict=True):
            for block in blocks:
                pool.retain(block)
        self._held[request] = _Holding(
            [list(blocks) for blocks in hit.blocks], hit.count, list(hit.links)
        )

    def grow(self, request: str, tokens: int) -> tuple[tuple[BlockId, ...], ...] | None:
        """Makes the tables cover `tokens` tokens: the new blocks per group, or None if short.

        All or nothing over the groups.
        """
        holding = self._held[request]
        missing = self.blocks_for(tokens) - len(holding.tables[0])
        if missing <= 0:
            return ((),) * self.groups
        if missing > self.free_blocks:
            return None
        added = tuple(
            tuple(self._take(group) for _ in range(missing)) for group in range(self.groups)
        )
        for table, blocks in zip(holding.tables, added, strict=True):
            table.extend(blocks)
        return added

    def has_unpublished(self, request: str, tokens: int) -> bool:
        """Whether `tokens` computed tokens fill a block that `publish` has not seen."""
        return tokens // self.block_tokens > self._held[request].published

    def publish(self, request: str, chain: KeyChain, tokens: int) -> list[int]:
        """Indexes the request's blocks that are full with the first `tokens` computed tokens.

        Returns the positions that are new in every group. `chain` must cover them.
        """
        holding = self._held[request]
        full = min(tokens // self.block_tokens, len(holding.tables[0]))
        stored: list[int] = []
        if self.prefix_cache:
            for position in range(holding.published, full):
                if self._publish_one(holding, chain, position):
                    stored.append(position)
        holding.published = max(holding.published, full)
        return stored

    def tables(self, request: str) -> list[list[BlockId]]:
        """The request's block table of each group."""
        return self._held[request].tables

    def holds(self, request: str) -> bool:
        """Whether the request holds blocks."""
        return request in self._held

    def release(self, request: str) -> None:
        """Gives back all blocks; a request that holds none is left alone.

        The tail goes first, so that of a cached prefix the end is overwritten before the start.
        """
        holding = self._held.pop(request, None)
        if holding is None:
            return
        for pool, index, table in zip(self._pools, self._indexes, holding.tables, strict=True):
            pool.release(reversed(table))
            for block in table:
                if block not in index:
                    pool.take_last(block)

    def pin(self, blocks: Sequence[Sequence[BlockId]]) -> None:
        """Holds blocks (per group) for a copy that is under way."""
        for pool, group in zip(self._pools, blocks, strict=True):
            for block in group:
                pool.retain(block)

    def unpin(self, blocks: Sequence[Sequence[BlockId]]) -> None:
        """Ends `pin`."""
        for pool, group in zip(self._pools, blocks, strict=True):
            pool.release(group)

    def reset_prefix_cache(self) -> int:
        """Forgets all cached content; blocks in use stay with their requests. The number gone."""
        forgotten = 0
        for group, index in enumerate(self._indexes):
            for block in index.blocks():
                self._forget(group, block)
                forgotten += 1
        return forgotten

    def take_events(self) -> list[KVEvent]:
        """The events since the last call."""
        events = self._events
        self._events = []
        return events

    def check(self) -> None:
        """Raises `AssertionError` unless every block is held exactly as often as tables say.

        For tests and for an idle engine; pinned blocks must be unpinned first.
        """
        for group, pool in enumerate(self._pools):
            expected = [0] * (pool.total + 1)
            for holding in self._held.values():
                for block in holding.tables[group]:
                    expected[block] += 1
            actual = [pool.references(BlockId(block)) for block in range(pool.total + 1)]
            assert actual == expected, f"group {group}: held {actual}, tables say {expected}"
            assert pool.used == sum(1 for count in expected if count)

    def _take(self, group: int) -> BlockId:
        block = self._pools[group].take()
        if self._forget(group, block):
            self.evicted += 1
        return block

    def _forget(self, group: int, block: BlockId) -> bool:
        block_hash = self._indexes[group].forget(block)
        if block_hash is None:
            return False
        if self.record_events:
            self._events.append(BlockRemoved(group, block_hash))
        return True

    def _publish_one(self, holding: _Holding, chain: KeyChain, position: int) -> bool:
        everywhere = True
        key_hash = chain.keys[position].hash
        for group, index in enumerate(self._indexes):
            link = holding.links[group]
            if link is None:
                everywhere = False
                continue
            stored = index.store(link, chain.keys, position, holding.tables[group][position])
            holding.links[group] = stored.link
            everywhere &= stored.is_new
            if self.record_events and stored.is_new:
                parent = chain.keys[position - 1].hash if position else None
                if stored.displaced:
                    self._events.append(BlockRemoved(group, key_hash))
                self._events.append(BlockStored(group, key_hash, parent))
        return everywhere
