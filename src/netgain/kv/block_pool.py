"""Which blocks of a pool are held, which are free, and in what order free ones are taken.

A free block keeps its content until it is taken again, so that the prefix index may still find it;
the block that has been free longest is taken first.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, NewType

BlockId = NewType("BlockId", int)

SCRATCH: Final = BlockId(0)
"""Takes the writes of padded rows; never handed out."""


class BlockPool:
    """Reference counts of `blocks` blocks, block 0 being scratch."""

    def __init__(self, blocks: int) -> None:
        if blocks < 2:
            raise ValueError("a pool needs the scratch block and at least one more")
        self.total = blocks - 1
        self._references = [0] * blocks
        self._free: OrderedDict[BlockId, None] = OrderedDict(
            (BlockId(block), None) for block in range(1, blocks)
        )

    @property
    def free(self) -> int:
        """Blocks that can be taken now."""
        return len(self._free)

    @property
    def used(self) -> int:
        """Blocks that someone holds."""
        return self.total - len(self._free)

    def references(self, block: BlockId) -> int:
        """How many hold this block."""
        return self._references[block]

    def take(self) -> BlockId:
        """The block that has been free longest, held once. Raises `LookupError` when none is."""
        if not self._free:
            raise LookupError("no free block")
        block, _ = self._free.popitem(last=False)
        self._references[block] = 1
        return block

    def retain(self, block: BlockId) -> None:
        """One more holder, of a held or a free block."""
        if block == SCRATCH:
            raise ValueError("the scratch block cannot be held")
        if self._references[block] == 0:
            del self._free[block]
        self._references[block] += 1

    def release(self, blocks: Iterable[BlockId]) -> None:
        """One holder less of each; those nobody holds become free, in the order given."""
        for block in blocks:
            if self._references[block] <= 0:
                raise ValueError(f"block {block} is not held")
            self._references[block] -= 1
            if self._references[block] == 0:
                self._free[block] = None

    def take_last(self, block: BlockId) -> None:
        """Makes a free block the next one to be taken: its content is worth nothing."""
        if block in self._free:
            self._free.move_to_end(block, last=False)
