"""Each token's bytes: joined they are the text, wherever it is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netgain.text.stream import TextStream
from netgain.text.token_trace import TokenTrace, TracedToken, spelled
from netgain.text.tokenizer import Tokenizer


def traced(
    tokenizer: Tokenizer, ids: list[int], stops: list[str]
) -> tuple[str, list[TracedToken], list[bool]]:
    """The text of `ids`, its tokens, and whether each was shown only after all of its text."""
    stream, trace = TextStream(tokenizer, stops), TokenTrace(tokenizer)
    text, tokens, in_time = "", [], []
    for id_ in ids:
        delta = stream.push((id_,))
        text += delta.text
        trace.push(id_)
        for token in trace.shown(len(delta.text)):
            tokens.append(token)
            in_time.append(token.offset <= len(text))
        if delta.stopped:
            break
    rest = stream.finish().text
    text += rest
    tokens += trace.shown(len(rest)) + trace.finish()
    return text, tokens, in_time


TEXTS = st.text(alphabet="helo é삼😀x 1", max_size=12)


@pytest.mark.parametrize("kind", ["byte_level", "sentencepiece"])
@given(text=TEXTS, stop=st.text(alphabet="lo é삼😀", min_size=1, max_size=3))
def test_the_bytes_of_the_tokens_are_the_text_however_a_stop_string_cuts_it(
    request: pytest.FixtureRequest, kind: str, text: str, stop: str
) -> None:
    tokenizer: Tokenizer = request.getfixturevalue(kind)
    shown, tokens, in_time = traced(tokenizer, tokenizer.encode(text), [stop])
    assert b"".join(token.raw for token in tokens) == shown.encode()
    assert stop not in shown
    assert all(in_time)


@pytest.mark.parametrize("kind", ["byte_level", "sentencepiece"])
@given(data=st.data())
def test_any_tokens_trace_to_what_decoding_all_of_them_gives(
    request: pytest.FixtureRequest, kind: str, data: st.DataObject
) -> None:
    tokenizer: Tokenizer = request.getfixturevalue(kind)
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=12))
    shown, tokens, _ = traced(tokenizer, ids, [])
    assert [token.id for token in tokens] == ids
    assert shown == tokenizer.decode(ids)
    joined = b"".join(token.raw for token in tokens)
    if "\ufffd" not in shown:
        assert joined == shown.encode()
    elif tokenizer.is_byte_level:
        assert joined.decode(errors="replace") == shown


def test_a_token_says_where_its_text_begins(byte_level: Tokenizer) -> None:
    text, tokens, _ = traced(byte_level, byte_level.encode("hello é hello"), [])
    for token in tokens:
        assert text[token.offset :].encode().startswith(token.raw)


def test_a_token_on_its_own_is_its_own_text(
    byte_level: Tokenizer, sentencepiece: Tokenizer
) -> None:
    assert spelled(byte_level, 0) == ("<|end|>", b"<|end|>")
    (hello,) = byte_level.encode(" hello")
    assert spelled(byte_level, hello) == (" hello", b" hello")
    half = byte_level.token_id("ðŁ")
    assert half is not None
    assert spelled(byte_level, half) == ("bytes:\\xf0\\x9f", b"\xf0\x9f")
    world = sentencepiece.token_id("▁world")
    assert world is not None
    assert spelled(sentencepiece, world) == (" world", b" world")
    fallback = sentencepiece.token_id("<0xE2>")
    assert fallback is not None
    assert spelled(sentencepiece, fallback) == ("bytes:\\xe2", b"\xe2")
