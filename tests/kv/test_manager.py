"""Tables, sharing and events of the KV manager over one and two groups."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netgain.kv.block_pool import SCRATCH
from netgain.kv.events import BlockRemoved, BlockStored
from netgain.kv.manager import KVManager
from netgain.kv.prefix_index import KeyChain, PrefixRoot

BLOCK = 4
ROOT = PrefixRoot("model")


def manager(*, groups: int = 2, blocks: int = 8, prefix_cache: bool = True) -> KVManager:
    return KVManager(groups, blocks, BLOCK, prefix_cache, record_events=True)


def chain_of(tokens: list[int], root: PrefixRoot = ROOT) -> KeyChain:
    chain = KeyChain(root, BLOCK)
    chain.extend(tokens)
    return chain


def serve(kv: KVManager, request: str, tokens: list[int]) -> int:
    """Admits a request, gives it all its blocks and publishes them; its hit in blocks."""
    chain = chain_of(tokens)
    hit = kv.find(chain, chain.keys)
    kv.admit(request, hit)
    assert kv.grow(request, len(tokens)) is not None
    kv.publish(request, chain, len(tokens))
    return hit.count


def cached_blocks(kv: KVManager, tokens: list[int]) -> int:
    chain = chain_of(tokens)
    return kv.find(chain, chain.keys).count


TOKENS = list(range(12))


def test_growth_over_two_groups_is_all_or_nothing() -> None:
    kv = manager(blocks=3)
    kv.admit("a", kv.find(chain_of([]), []))
    assert kv.grow("a", 2 * BLOCK) is not None
    before = [list(table) for table in kv.tables("a")]
    assert kv.grow("a", 4 * BLOCK) is None
    assert kv.tables("a") == before
    assert kv.free_blocks == 1
    kv.check()


def test_growth_is_refused_in_every_group_when_one_group_is_full() -> None:
    kv = manager(blocks=3)
    kv.admit("a", kv.find(chain_of([]), []))
    kv.grow("a", BLOCK)
    # Group 1 alone loses what it has left, as when its blocks are pinned for a copy.
    first, second = kv._pools[1].take(), kv._pools[1].take()
    assert kv.grow("a", 2 * BLOCK) is None
    assert [len(table) for table in kv.tables("a")] == [1, 1]
    kv._pools[1].release([first, second])
    kv.check()


def test_growth_returns_exactly_the_new_blocks_of_each_group() -> None:
    kv = manager()
    kv.admit("a", kv.find(chain_of([]), []))
    first = kv.grow("a", BLOCK)
    second = kv.grow("a", BLOCK + 1)
    assert first is not None
    assert second is not None
    assert kv.grow("a", 2 * BLOCK) == ((), ())
    assert [list(a + b) for a, b in zip(first, second, strict=True)] == kv.tables("a")


def test_a_repeated_prompt_hits_the_blocks_of_the_first_one() -> None:
    kv = manager()
    serve(kv, "a", TOKENS)
    assert serve(kv, "b", TOKENS) == 3
    assert kv.tables("a") == kv.tables("b")
    kv.check()


def test_a_hit_needs_the_block_in_every_group() -> None:
    kv = manager()
    serve(kv, "a", TOKENS)
    victim = kv.tables("a")[1][1]
    kv._forget(1, victim)
    chain = chain_of(TOKENS)
    hit = kv.find(chain, chain.keys)
    assert [len(blocks) for blocks in hit.blocks] == [1, 1]


def test_the_tail_of_a_released_prefix_is_reused_before_its_head() -> None:
    kv = manager(groups=1, blocks=3)
    serve(kv, "a", TOKENS)
    kv.release("a")
    for left in (2, 1, 0):
        kv.admit("b", kv.find(chain_of([]), []))
        kv.grow("b", (3 - left) * BLOCK)
        assert cached_blocks(kv, TOKENS) == left
        kv.release("b")
        # What "b" held was never indexed, so it goes first again.


def test_blocks_without_cached_content_are_reused_before_cached_ones() -> None:
    kv = manager(groups=1, blocks=4)
    serve(kv, "cached", TOKENS)
    kv.release("cached")
    kv.admit("b", kv.find(chain_of([]), []))
    kv.grow("b", 1)
    kv.release("b")
    kv.admit("c", kv.find(chain_of([]), []))
    kv.grow("c", 1)
    assert cached_blocks(kv, TOKENS) == 3
    assert kv.evicted == 0


def test_of_two_prefixes_the_one_unused_longest_is_overwritten_first() -> None:
    kv = manager(groups=1, blocks=4)
    older, newer = [1] * 8, [2] * 8
    serve(kv, "a", older)
    serve(kv, "b", newer)
    kv.release("a")
    kv.release("b")
    serve(kv, "a again", older)
    kv.release("a again")
    kv.admit("c", kv.find(chain_of([]), []))
    kv.grow("c", 2 * BLOCK)
    assert (cached_blocks(kv, older), cached_blocks(kv, newer)) == (2, 0)
    assert kv.evicted == 2


def test_unheld_counts_the_hit_blocks_that_admission_takes_from_the_free_ones() -> None:
    kv = manager()
    serve(kv, "a", TOKENS)
    chain = chain_of(TOKENS)
    assert kv.find(chain, chain.keys).unheld == 0
    kv.release("a")
    hit = kv.find(chain, chain.keys)
    free = kv.free_blocks
    kv.admit("b", hit)
    assert hit.unheld == free - kv.free_blocks == 3


def test_finding_holds_nothing() -> None:
    kv = manager()
    serve(kv, "a", TOKENS)
    kv.release("a")
    cached_blocks(kv, TOKENS)
    assert kv.used_blocks == 0


def test_without_a_prefix_cache_nothing_is_ever_found_or_announced() -> None:
    kv = manager(prefix_cache=False)
    serve(kv, "a", TOKENS)
    assert serve(kv, "b", TOKENS) == 0
    assert kv.take_events() == []


def test_a_partly_filled_block_is_not_published() -> None:
    kv = manager()
    chain = chain_of(TOKENS)
    kv.admit("a", kv.find(chain, []))
    kv.grow("a", 12)
    assert kv.publish("a", chain, 7) == [0]
    assert not kv.has_unpublished("a", 7)
    assert kv.has_unpublished("a", 8)
    assert kv.publish("a", chain, 8) == [1]


def test_a_second_copy_of_published_content_is_not_announced_again() -> None:
    kv = manager()
    chain = chain_of(TOKENS)
    nothing = kv.find(chain, [])
    for request in ("a", "b"):
        kv.admit(request, nothing)
        kv.grow(request, 12)
    assert kv.publish("a", chain, 12) == [0, 1, 2]
    assert kv.publish("b", chain, 12) == []
    assert len(kv.take_events()) == 6


def test_admitting_a_request_that_holds_blocks_is_refused() -> None:
    kv = manager()
    serve(kv, "a", TOKENS)
    with pytest.raises(ValueError, match="holds blocks already"):
        kv.admit("a", kv.find(chain_of([]), []))


def test_releasing_a_request_that_holds_nothing_changes_nothing() -> None:
    kv = manager()
    kv.release("nobody")
    assert kv.free_blocks == 8


def test_a_reset_forgets_everything_and_leaves_holders_their_blocks() -> None:
    kv = manager()
    serve(kv, "a", TOKENS)
    kv.take_events()
    held = [list(table) for table in kv.tables("a")]
    assert kv.reset_prefix_cache() == 6
    assert cached_blocks(kv, TOKENS) == 0
    assert kv.tables("a") == held
    removed = kv.take_events()
    assert len(removed) == 6
    assert all(isinstance(event, BlockRemoved) for event in removed)
    kv.check()


def test_a_request_that_outlives_a_reset_publishes_nothing_that_hangs_in_the_air() -> None:
    kv = manager()
    chain = chain_of(TOKENS)
    kv.admit("a", kv.find(chain, []))
    kv.grow("a", 12)
    kv.publish("a", chain, 4)
    kv.reset_prefix_cache()
    kv.publish("a", chain, 12)
    assert cached_blocks(kv, TOKENS) == 0
    # Another request brings the whole prefix back.
    serve(kv, "b", TOKENS)
    assert cached_blocks(kv, TOKENS) == 3


def test_pinned_blocks_are_not_reused_until_unpinned() -> None:
    kv = manager(groups=2, blocks=3)
    serve(kv, "a", TOKENS)
    pinned = [tuple(table[:1]) for table in kv.tables("a")]
    kv.pin(pinned)
    kv.release("a")
    assert kv.free_blocks == 2
    kv.admit("b", kv.find(chain_of([]), []))
    assert kv.grow("b", 3 * BLOCK) is None
    kv.grow("b", 2 * BLOCK)
    assert all(pin[0] not in table for pin, table in zip(pinned, kv.tables("b"), strict=True))
    kv.unpin(pinned)
    assert kv.grow("b", 3 * BLOCK) is not None
    kv.check()


def test_an_entry_that_makes_room_for_its_equal_is_announced_as_removed_first() -> None:
    kv = manager(groups=1)
    serve(kv, "a", TOKENS)
    keys = chain_of(TOKENS).keys
    kv._forget(0, kv.tables("a")[0][0])
    kv.take_events()
    # The two entries below hang on one that is gone; the same content is stored anew.
    serve(kv, "b", TOKENS)
    assert kv.take_events() == [
        BlockStored(0, keys[0].hash, None),
        BlockRemoved(0, keys[1].hash),
        BlockStored(0, keys[1].hash, keys[0].hash),
        BlockRemoved(0, keys[2].hash),
        BlockStored(0, keys[2].hash, keys[1].hash),
    ]


def test_check_notices_a_block_that_nobody_accounts_for() -> None:
    kv = manager()
    kv._pools[0].take()
    with pytest.raises(AssertionError, match="group 0"):
        kv.check()


operations = st.lists(
    st.tuples(
        st.sampled_from(["serve", "serve", "serve", "release", "release", "reset", "grow"]),
        st.integers(0, 3),
        st.lists(st.integers(0, 1), min_size=1, max_size=16),
    ),
    max_size=30,
)


@given(groups=st.integers(1, 2), blocks=st.integers(4, 8), operations=operations)
def test_events_mirror_the_index_and_no_block_is_in_two_places(
    groups: int, blocks: int, operations: list[tuple[str, int, list[int]]]
) -> None:
    kv = manager(groups=groups, blocks=blocks)
    mirror: set[tuple[int, bytes]] = set()
    parents: dict[bytes, bytes | None] = {}
    for operation, number, tokens in operations:
        request = str(number)
        if operation == "serve" and not kv.holds(request):
            chain = chain_of(tokens)
            hit = kv.find(chain, chain.keys)
            needed = kv.blocks_for(len(tokens)) - hit.count + hit.unheld
            free = kv.free_blocks
            kv.admit(request, hit)
            grown = kv.grow(request, len(tokens))
            # Every group has as many blocks free as any other here: nothing is pinned.
            assert (grown is not None) == (needed <= free)
            if grown is None:
                kv.release(request)
            else:
                kv.publish(request, chain, len(tokens))
                for position in range(len(chain.keys)):
                    above = chain.keys[position - 1].hash if position else None
                    parents[chain.keys[position].hash] = above
        elif operation == "release":
            kv.release(request)
        elif operation == "reset":
            kv.reset_prefix_cache()
        elif operation == "grow" and kv.holds(request):
            kv.grow(request, len(tokens))
        for event in kv.take_events():
            entry = (event.group, event.block_hash)
            if isinstance(event, BlockStored):
                assert entry not in mirror
                assert event.parent_hash == parents.get(event.block_hash, event.parent_hash)
                mirror.add(entry)
            else:
                mirror.remove(entry)
        indexed = {
            (group, block_hash)
            for group, index in enumerate(kv._indexes)
            for block_hash in index._by_hash
        }
        assert mirror == indexed
        kv.check()
        for group in range(groups):
            for held in (kv.tables(name)[group] for name in "0123" if kv.holds(name)):
                assert len(set(held)) == len(held)
                assert SCRATCH not in held
