"""A text that is too long is found out for the price of the tokens that would have fitted."""

import random
import threading
import time

import pytest

from netgain.text.length import SLICE_CHARS, tokens_beyond
from netgain.text.tokenizer import Tokenizer

WORDS = ("hello", "é", "two words", "  ", "\n\n", "<|end|>", "<tool>", "삼", "ðŁĺ", "12")
LONG = "é1 삼😀" * 150_000


@pytest.mark.parametrize("seed", range(4))
def test_a_text_is_called_too_long_only_if_it_is(byte_level: Tokenizer, seed: int) -> None:
    draw = random.Random(seed)
    text = "".join(draw.choices(WORDS, k=5 * SLICE_CHARS))
    tokens = len(byte_level.encode(text))
    assert tokens_beyond(byte_level, text, tokens) is None
    for limit in (0, 10, tokens // 2):
        least = tokens_beyond(byte_level, text, limit)
        assert least is not None
        assert limit < least <= tokens


def test_marks_count_as_what_they_stand_for(byte_level: Tokenizer) -> None:
    mark = "[0123456789abcdef:0]"
    text = f"{mark} hello " * 10_000
    quoted = {mark: "<|end|>"}
    tokens = len(byte_level.encode_quoted(text, quoted))
    assert tokens_beyond(byte_level, text, tokens, quoted=quoted) is None
    least = tokens_beyond(byte_level, text, tokens // 2, quoted=quoted)
    assert least is not None
    assert least <= tokens


def test_a_text_of_megabytes_costs_what_would_have_fitted(byte_level: Tokenizer) -> None:
    began_s = time.process_time()
    byte_level.encode(LONG)
    whole_s = time.process_time() - began_s
    began_s = time.process_time()
    assert tokens_beyond(byte_level, LONG, 30_000) is not None
    assert time.process_time() - began_s < whole_s / 4


@pytest.mark.parametrize("parse_special", [True, False])
def test_other_threads_go_on_while_a_long_text_is_encoded(
    byte_level: Tokenizer, parse_special: bool
) -> None:
    """The thread that encodes runs alone only where it holds the interpreter's lock."""
    byte_level.encode("hello", parse_special=parse_special)
    ended = threading.Event()
    ticks = 0

    def encode() -> None:
        byte_level.encode(LONG, parse_special=parse_special)
        ended.set()

    thread = threading.Thread(target=encode)
    thread.start()
    while not ended.wait(0.001):
        ticks += 1
    thread.join()
    assert ticks > 50
