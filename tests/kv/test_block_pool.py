"""The pool hands out what has been free longest, and nothing twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netgain.kv.block_pool import SCRATCH, BlockId, BlockPool


def test_the_block_that_has_been_free_longest_is_taken_first() -> None:
    pool = BlockPool(4)
    first, second, third = pool.take(), pool.take(), pool.take()
    pool.release([second])
    pool.release([third, first])
    assert [pool.take(), pool.take(), pool.take()] == [second, third, first]


def test_a_retained_free_block_is_no_longer_next() -> None:
    pool = BlockPool(4)
    one, two, three = pool.take(), pool.take(), pool.take()
    pool.release([one, two, three])
    pool.retain(one)
    assert pool.take() == two
    pool.release([one])
    assert [pool.take(), pool.take()] == [three, one]


def test_a_block_is_free_only_when_its_last_holder_lets_go() -> None:
    pool = BlockPool(2)
    block = pool.take()
    pool.retain(block)
    pool.release([block])
    assert pool.free == 0
    pool.release([block])
    assert pool.free == 1


def test_releasing_a_block_nobody_holds_is_refused() -> None:
    pool = BlockPool(3)
    block = pool.take()
    pool.release([block])
    with pytest.raises(ValueError, match="not held"):
        pool.release([block])
    assert pool.free == 2


def test_the_scratch_block_is_never_handed_out_nor_held() -> None:
    pool = BlockPool(5)
    assert SCRATCH not in {pool.take() for _ in range(pool.total)}
    with pytest.raises(ValueError, match="scratch"):
        pool.retain(SCRATCH)
    with pytest.raises(ValueError, match="not held"):
        pool.release([SCRATCH])


def test_an_empty_pool_raises_instead_of_handing_out() -> None:
    pool = BlockPool(2)
    pool.take()
    with pytest.raises(LookupError):
        pool.take()


def test_a_pool_without_a_block_beside_scratch_is_refused() -> None:
    with pytest.raises(ValueError, match="scratch"):
        BlockPool(1)


class NaivePool:
    """The same contract as plain lists."""

    def __init__(self, blocks: int) -> None:
        self.free = list(range(1, blocks))
        self.held: dict[int, int] = {}

    def take(self) -> int:
        block = self.free.pop(0)
        self.held[block] = 1
        return block

    def retain(self, block: int) -> None:
        if block in self.free:
            self.free.remove(block)
        self.held[block] = self.held.get(block, 0) + 1

    def release(self, block: int) -> None:
        self.held[block] -= 1
        if not self.held[block]:
            del self.held[block]
            self.free.append(block)

    def take_last(self, block: int) -> None:
        if block in self.free:
            self.free.remove(block)
            self.free.insert(0, block)


@given(
    blocks=st.integers(2, 8),
    operations=st.lists(
        st.tuples(
            st.sampled_from(["take", "take", "retain", "release", "release", "take_last"]),
            st.integers(1, 7),
        ),
        max_size=60,
    ),
)
def test_the_pool_agrees_with_a_naive_one(blocks: int, operations: list[tuple[str, int]]) -> None:
    pool, naive = BlockPool(blocks), NaivePool(blocks)
    for operation, number in operations:
        block = 1 + (number - 1) % (blocks - 1)
        if operation == "take" and naive.free:
            assert pool.take() == naive.take()
        elif operation == "retain":
            pool.retain(BlockId(block))
            naive.retain(block)
        elif operation == "release":
            if block in naive.held:
                pool.release([BlockId(block)])
                naive.release(block)
            else:
                with pytest.raises(ValueError, match="not held"):
                    pool.release([BlockId(block)])
        elif operation == "take_last":
            pool.take_last(BlockId(block))
            naive.take_last(block)
        assert (pool.free, pool.used) == (len(naive.free), len(naive.held))
        assert {b: pool.references(BlockId(b)) for b in naive.held} == naive.held
    assert [pool.take() for _ in range(pool.free)] == naive.free
