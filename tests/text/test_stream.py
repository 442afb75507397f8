"""What a client sees does not depend on how the ids were grouped."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from netgain.text.stream import TextStream
from netgain.text.tokenizer import Tokenizer


def run(tokenizer: Tokenizer, stops: list[str], groups: list[list[int]]) -> tuple[object, ...]:
    stream = TextStream(tokenizer, stops)
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
