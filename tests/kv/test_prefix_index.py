"""A hit is a hit for the right reason, whatever the hash function does."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netgain.kv.block_pool import BlockId
from netgain.kv.prefix_index import (
    HashFunction,
    KeyChain,
    ParentLink,
    PrefixIndex,
    PrefixRoot,
    blake2b,
)

BLOCK_TOKENS = 2


def constant_hash(data: bytes) -> bytes:
    return b"always"


def one_byte_hash(data: bytes) -> bytes:
    return blake2b(data)[:1]


def two_bit_hash(data: bytes) -> bytes:
    return bytes([blake2b(data)[0] & 3])


WEAK_HASHES: list[HashFunction] = [constant_hash, one_byte_hash, two_bit_hash]


def store_all(index: PrefixIndex, chain: KeyChain, first_block: int) -> list[BlockId]:
    """Indexes a whole chain under blocks counted from `first_block`."""
    link: ParentLink | None = chain.root
    blocks: list[BlockId] = []
    for position in range(len(chain.keys)):
        assert link is not None
        block = BlockId(first_block + position)
        link = index.store(link, chain.keys, position, block).link
        blocks.append(block)
    return blocks


def chain_of(
    root: PrefixRoot, tokens: list[int], hash_function: HashFunction = blake2b
) -> KeyChain:
    chain = KeyChain(root, BLOCK_TOKENS, hash_function)
    chain.extend(tokens)
    return chain


ROOT = PrefixRoot("model")


def test_the_longest_indexed_prefix_is_found_and_no_more() -> None:
    index = PrefixIndex()
    blocks = store_all(index, chain_of(ROOT, [1, 2, 3, 4, 5, 6]), 10)
    other = chain_of(ROOT, [1, 2, 3, 4, 9, 9, 5, 6])
    assert index.find(ROOT, other.keys)[0] == blocks[:2]


def test_equal_tokens_after_a_different_beginning_are_not_found() -> None:
    index = PrefixIndex()
    store_all(index, chain_of(ROOT, [1, 2, 3, 4]), 10)
    assert index.find(ROOT, chain_of(ROOT, [9, 9, 3, 4]).keys)[0] == []
    assert index.find(ROOT, chain_of(ROOT, [3, 4]).keys)[0] == []


@pytest.mark.parametrize(
    "other",
    [
        PrefixRoot("other model"),
        PrefixRoot("model", salt="tenant"),
        PrefixRoot("model", extra=("adapter",)),
        PrefixRoot("model", salt="", extra=("", "")),
    ],
)
@pytest.mark.parametrize("hash_function", [blake2b, constant_hash])
def test_fingerprint_salt_and_extra_fields_each_separate(
    other: PrefixRoot, hash_function: HashFunction
) -> None:
    tokens = [1, 2, 3, 4]
    index = PrefixIndex()
    store_all(index, chain_of(ROOT, tokens, hash_function), 10)
    assert index.find(other, chain_of(other, tokens, hash_function).keys)[0] == []


roots = st.builds(
    PrefixRoot,
    st.text("ab\0", max_size=3),
    st.text("ab\0", max_size=3),
    st.lists(st.text("ab\0", max_size=2), max_size=3).map(tuple),
)


@given(left=roots, right=roots)
def test_the_root_digest_is_unambiguous_in_its_fields(left: PrefixRoot, right: PrefixRoot) -> None:
    fields_equal = tuple(left) == tuple(right)
    assert (left.digest(blake2b) == right.digest(blake2b)) == fields_equal


@pytest.mark.parametrize(
    "other",
    [
        PrefixRoot("a", "bc", ("d",)),
        PrefixRoot("abc", "", ("d",)),
        PrefixRoot("ab", "c", ("", "d")),
        PrefixRoot("ab", "cd"),
        PrefixRoot("ab", "c", ("d", "")),
    ],
)
def test_characters_moved_from_one_field_to_the_next_change_the_root_digest(
    other: PrefixRoot,
) -> None:
    assert other.digest(blake2b) != PrefixRoot("ab", "c", ("d",)).digest(blake2b)


def test_a_lone_surrogate_in_a_salt_has_a_digest() -> None:
    assert PrefixRoot("model", "\ud800").digest(blake2b) != PrefixRoot("model").digest(blake2b)


def test_a_chain_extended_piece_by_piece_equals_one_built_at_once() -> None:
    tokens = list(range(11))
    chain = KeyChain(ROOT, 3)
    for end in (2, 3, 7, 7, 11):
        chain.extend(tokens[:end])
    assert chain.keys == KeyChain(ROOT, 3).extend(tokens)
    assert len(chain.keys) == 3


def test_opaque_ids_find_each_other_and_no_token_block() -> None:
    index = PrefixIndex()
    chain = KeyChain(ROOT, BLOCK_TOKENS)
    chain.extend_opaque(["b1", "b2"])
    blocks = store_all(index, chain, 10)
    again = KeyChain(ROOT, BLOCK_TOKENS)
    again.extend_opaque(["b1", "b2", "b3"])
    assert index.find(ROOT, again.keys)[0] == blocks
    swapped = KeyChain(ROOT, BLOCK_TOKENS)
    swapped.extend_opaque(["b2", "b1"])
    assert index.find(ROOT, swapped.keys)[0] == []
    assert index.find(ROOT, chain_of(ROOT, [1, 2]).keys)[0] == []


def test_a_forgotten_block_hides_its_descendants_even_when_it_comes_back() -> None:
    index = PrefixIndex()
    chain = chain_of(ROOT, [1, 2, 3, 4])
    first, second = store_all(index, chain, 10)
    assert index.forget(first) == chain.keys[0].hash
    assert index.find(ROOT, chain.keys)[0] == []
    assert index.store(ROOT, chain.keys, 0, BlockId(20)).is_new
    # The entry below hangs on the entry that is gone: only its own new copy may be found.
    assert index.find(ROOT, chain.keys)[0] == [BlockId(20)]
    assert second in index


def test_a_child_of_a_forgotten_parent_is_not_indexed() -> None:
    index = PrefixIndex()
    chain = chain_of(ROOT, [1, 2, 3, 4])
    link = index.store(ROOT, chain.keys, 0, BlockId(10)).link
    assert link is not None
    index.forget(BlockId(10))
    assert index.store(link, chain.keys, 1, BlockId(11)).link is None
    assert len(index) == 0


def test_a_child_is_not_indexed_under_a_parent_that_took_the_place_of_its_own() -> None:
    index = PrefixIndex()
    chain = chain_of(ROOT, [1, 2, 3, 4])
    link = index.store(ROOT, chain.keys, 0, BlockId(10)).link
    assert link is not None
    index.forget(BlockId(10))
    index.store(ROOT, chain.keys, 0, BlockId(20))
    assert index.store(link, chain.keys, 1, BlockId(11)).link is None
    assert index.blocks() == [BlockId(20)]


@dataclass(frozen=True)
class _Truth:
    """What a block really holds: everything up to and including its own tokens."""

    root: PrefixRoot
    tokens: tuple[int, ...]


sequences = st.lists(st.integers(0, 2), min_size=0, max_size=10)
few_roots = st.sampled_from([ROOT, PrefixRoot("model", "salt"), PrefixRoot("b")])


@given(
    weak=st.sampled_from(WEAK_HASHES),
    operations=st.lists(
        st.tuples(st.sampled_from(["store", "store", "find", "forget"]), few_roots, sequences),
        max_size=25,
    ),
)
def test_no_collision_returns_a_block_whose_tokens_or_ancestors_differ(
    weak: Callable[[bytes], bytes], operations: list[tuple[str, PrefixRoot, list[int]]]
) -> None:
    index = PrefixIndex()
    truth: dict[BlockId, _Truth] = {}
    removed: set[BlockId] = set()
    for operation, root, tokens in operations:
        chain = chain_of(root, tokens, weak)
        found, link = index.find(root, chain.keys)
        for position, block in enumerate(found):
            end = (position + 1) * BLOCK_TOKENS
            assert truth[block] == _Truth(root, tuple(tokens[:end]))
            assert block not in removed
        if operation == "store":
            hang: ParentLink | None = link
            for position in range(len(found), len(chain.keys)):
                if hang is None:
                    break
                block = BlockId(len(truth) + 1)
                truth[block] = _Truth(root, tuple(tokens[: (position + 1) * BLOCK_TOKENS]))
                hang = index.store(hang, chain.keys, position, block).link
        elif operation == "forget" and found:
            removed.add(found[-1])
            index.forget(found[-1])
        assert len(index) == len(index.blocks())


@given(prompts=st.lists(st.tuples(few_roots, sequences), max_size=12))
def test_with_a_strong_hash_everything_stored_is_found(
    prompts: list[tuple[PrefixRoot, list[int]]],
) -> None:
    index = PrefixIndex()
    oracle: dict[_Truth, BlockId] = {}
    for root, tokens in prompts:
        chain = chain_of(root, tokens)
        expected = []
        for end in range(BLOCK_TOKENS, len(tokens) + 1, BLOCK_TOKENS):
            known = oracle.get(_Truth(root, tuple(tokens[:end])))
            if known is None:
                break
            expected.append(known)
        found, link = index.find(root, chain.keys)
        assert found == expected
        hang: ParentLink | None = link
        for position in range(len(found), len(chain.keys)):
            assert hang is not None
            block = BlockId(len(oracle) + 1)
            oracle[_Truth(root, tuple(tokens[: (position + 1) * BLOCK_TOKENS]))] = block
            hang = index.store(hang, chain.keys, position, block).link
