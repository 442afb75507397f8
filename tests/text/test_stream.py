"""What a client sees does not depend on how the ids were grouped."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from netgain.text.stream import TextStream
from netgain.text.tokenizer import Tokenizer


def run(
    tokenizer: Tokenizer, stops: list[str], groups: list[list[int]], min_tokens: int = 0
) -> tuple[object, ...]:
    stream = TextStream(tokenizer, stops, min_tokens)
    text = ""
    for group in groups:
        delta = stream.push(group)
        text += delta.text
        if delta.stopped:
            return text, delta.stop, stream.tokens
    last = stream.finish()
    return text + last.text, last.stop, stream.tokens


@given(
    ids=st.lists(st.integers(0, 270), max_size=20),
    cuts=st.lists(st.integers(0, 20), max_size=6),
    stops=st.lists(st.sampled_from(["hello", "lo he", "é", "\ufffd", "a"]), max_size=3),
)
def test_grouping_changes_neither_text_nor_stop_nor_counts(
    byte_level: Tokenizer, ids: list[int], cuts: list[int], stops: list[str]
) -> None:
    edges = sorted({0, len(ids), *(cut for cut in cuts if cut < len(ids))})
    groups = [ids[start:end] for start, end in pairwise(edges)]
    assert run(byte_level, stops, groups) == run(byte_level, stops, [ids])
    assert run(byte_level, stops, groups) == run(byte_level, stops, [[id_] for id_ in ids])


def test_without_stops_the_text_is_the_decoded_text(byte_level: Tokenizer) -> None:
    ids = byte_level.encode("hello é 😀<|end|>")
    assert run(byte_level, [], [ids]) == ("hello é 😀", None, len(ids))


def test_tokens_after_a_stop_are_not_counted(byte_level: Tokenizer) -> None:
    ids = byte_level.encode("ab.cd")
    assert run(byte_level, ["."], [ids]) == ("ab", ".", 3)


def test_stop_strings_are_looked_for_behind_the_first_min_tokens_only(
    byte_level: Tokenizer,
) -> None:
    ids = byte_level.encode("a.b.c.d")
    assert len(ids) == 7
    # The tokens up to and including "." are text, whatever they complete.
    for min_tokens, text, count in ((0, "a", 2), (1, "a", 2), (2, "a.b", 4), (4, "a.b.c", 6)):
        assert run(byte_level, ["."], [ids], min_tokens) == (text, ".", count)
    assert run(byte_level, ["."], [ids], 7) == ("a.b.c.d", None, 7)
    # One that began among them is not seen.
    assert run(byte_level, [".b"], [ids], 2) == ("a.b.c.d", None, 7)


@given(
    ids=st.lists(st.integers(0, 270), max_size=12),
    cut=st.integers(0, 12),
    min_tokens=st.integers(0, 14),
)
def test_grouping_changes_nothing_with_min_tokens_either(
    byte_level: Tokenizer, ids: list[int], cut: int, min_tokens: int
) -> None:
    whole = run(byte_level, ["a", "\ufffd"], [ids], min_tokens)
    assert run(byte_level, ["a", "\ufffd"], [ids[:cut], ids[cut:]], min_tokens) == whole
    assert run(byte_level, ["a", "\ufffd"], [[id_] for id_ in ids], min_tokens) == whole
    if min_tokens >= len(ids):
        assert whole == run(byte_level, [], [ids])
