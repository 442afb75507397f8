"""Text that arrives token by token is the text decoded at once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netgain.text.detokenizer import IncrementalDetokenizer
from netgain.text.tokenizer import Tokenizer

groups_of_ids = st.lists(st.lists(st.integers(0, 300), max_size=4), max_size=12)
HARD = "Repeat exactly: 삼겹살 😀 ďábelské"


def stream(tokenizer: Tokenizer, groups: list[list[int]], skip: bool = True) -> list[str]:
    detokenizer = IncrementalDetokenizer(tokenizer, skip_special_tokens=skip)
    return [*(detokenizer.push(group) for group in groups), detokenizer.finish()]


@given(groups=groups_of_ids, skip=st.booleans())
def test_byte_level_deltas_joined_are_the_decoded_text(
    byte_level: Tokenizer, groups: list[list[int]], skip: bool
) -> None:
    ids = [id_ for group in groups for id_ in group]
    whole = byte_level.decode(ids, skip_special_tokens=skip)
    assert "".join(stream(byte_level, groups, skip)) == whole


@given(groups=groups_of_ids, skip=st.booleans())
def test_sentencepiece_deltas_joined_are_the_decoded_text(
    sentencepiece: Tokenizer, groups: list[list[int]], skip: bool
) -> None:
    ids = [id_ for group in groups for id_ in group]
    whole = sentencepiece.decode(ids, skip_special_tokens=skip)
    assert "".join(stream(sentencepiece, groups, skip)) == whole


# Mostly pieces with a text of their own, so that words, gaps and byte runs alternate.
@given(
    ids=st.lists(
        st.one_of(st.integers(256, 269), st.sampled_from([0xEC + 2, 0x82 + 2, 0xBC + 2, 0x41 + 2])),
        max_size=14,
    )
)
def test_sentencepiece_words_and_byte_runs_join_to_the_decoded_text(
    sentencepiece: Tokenizer, ids: list[int]
) -> None:
    assert "".join(stream(sentencepiece, [[id_] for id_ in ids])) == sentencepiece.decode(ids)


@given(text=st.text())
def test_a_character_split_over_tokens_comes_out_whole(byte_level: Tokenizer, text: str) -> None:
    deltas = stream(byte_level, [[id_] for id_ in byte_level.encode(text, parse_special=False)])
    assert "".join(deltas) == text
    assert text.count("\ufffd") == sum(delta.count("\ufffd") for delta in deltas)


def test_sentencepiece_text_appears_before_the_end(sentencepiece: Tokenizer) -> None:
    ids = [sentencepiece.token_id("▁hello"), sentencepiece.token_id("▁world")]
    assert stream(sentencepiece, [[id_] for id_ in ids if id_ is not None]) == [
        "hello",
        " world",
        "",
    ]


@pytest.mark.model
def test_hard_characters_stream_whole_with_the_default_model(smollm: Tokenizer) -> None:
    deltas = stream(smollm, [[id_] for id_ in smollm.encode(HARD)])
    assert "".join(deltas) == HARD
    assert not any("\ufffd" in delta for delta in deltas)
    assert "" in deltas  # some tokens end inside a character


def test_an_unfinished_character_is_replaced_only_at_the_end(byte_level: Tokenizer) -> None:
    half = byte_level.encode("😀")[:-1]
    assert stream(byte_level, [half]) == ["", "\ufffd"]
