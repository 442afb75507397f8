"""The tokenizer against ids from `transformers` and against its own inverse."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netgain.errors import InvalidRequestError, ModelError
from netgain.text.tokenizer import Tokenizer, TokenType

# From transformers 5.24: AutoTokenizer.from_pretrained(dir, gguf_file=the default model's file).
KNOWN = [
    ("", []),
    ("Hello, world!", [19556, 28, 905, 17]),
    ("The capital of France is", [504, 3575, 282, 4649, 314]),
    ("I'm sure you don't\n\n  indent", [57, 5248, 2090, 346, 1326, 982, 8866, 20409]),
    ("<|im_start|>user\nHi<|im_end|>\n", [1, 4093, 198, 26843, 2, 198]),
    (
        "2024-11-29 costs 3.50",
        [34, 32, 34, 36, 29, 33, 33, 29, 34, 41, 3499, 216, 35, 30, 37, 32],
    ),
    (
        "Repeat exactly: 삼겹살 😀 ďábelské",
        [
            *(48010, 3869, 42, 18601, 220, 137, 181, 127, 134, 183, 220, 129),
            *(40303, 218, 24488, 233, 5415, 82, 1025, 91, 2756),
        ],
    ),
]


@pytest.mark.model
@pytest.mark.parametrize(("text", "ids"), KNOWN)
def test_the_default_model_encodes_as_transformers_does(
    smollm: Tokenizer, text: str, ids: list[int]
) -> None:
    assert smollm.encode(text) == ids
    assert smollm.decode(ids, skip_special_tokens=False) == text


@pytest.mark.model
def test_the_default_model_knows_its_special_tokens(smollm: Tokenizer) -> None:
    assert smollm.vocab_size == 49152
    assert smollm.bos_id == smollm.token_id("<|im_start|>") == 1
    assert smollm.eos_ids == {smollm.token_id("<|im_end|>"), smollm.token_id("<|endoftext|>")}
    assert smollm.special_ids == set(range(17))


@given(text=st.text())
def test_encoding_then_decoding_returns_the_text(byte_level: Tokenizer, text: str) -> None:
    ids = byte_level.encode(text)
    assert byte_level.decode(ids, skip_special_tokens=False) == text
    assert b"".join(map(byte_level.token_bytes, ids)) == text.encode()


@given(ids=st.lists(st.integers(0, 270)))
def test_token_bytes_joined_are_what_decode_shows(byte_level: Tokenizer, ids: list[int]) -> None:
    joined = b"".join(map(byte_level.token_bytes, ids))
    assert joined.decode("utf-8", "replace") == byte_level.decode(ids, skip_special_tokens=False)


def test_control_tokens_in_text_are_recognised_unless_asked_not_to(byte_level: Tokenizer) -> None:
    assert byte_level.encode("a<|end|>") == [*byte_level.encode("a"), 0]
    literal = byte_level.encode("a<|end|>", parse_special=False)
    assert 0 not in literal
    assert byte_level.decode(literal) == "a<|end|>"
    assert byte_level.decode(byte_level.encode("a<|end|>")) == "a"


def test_user_defined_tokens_are_recognised_and_shown(byte_level: Tokenizer) -> None:
    for parse_special in (True, False):
        assert byte_level.encode("<tool>", parse_special=parse_special) == [1]
    assert byte_level.decode([1]) == "<tool>"


def test_the_beginning_token_comes_only_with_special_tokens(byte_level: Tokenizer) -> None:
    assert byte_level.encode("hello") == [byte_level.token_id("hello")]
    assert byte_level.encode("hello", add_special_tokens=True) == [0, byte_level.token_id("hello")]


def test_digits_are_split_one_by_one_for_smollm() -> None:
    tokens = ["1", "2", "12"]
    types = [TokenType.NORMAL] * 3
    split, whole = (
        Tokenizer.from_bpe(tokens, ["1 2"], types, pre, bos_id=None, eos_ids=[], add_bos=False)
        for pre in ("smollm", "gpt-2")
    )
    assert split.encode("12") == [0, 1]
    assert whole.encode("12") == [2]


@pytest.mark.parametrize(
    ("pre", "words"),
    [
        ("llama-bpe", ["I", "'M", "Ġhere", "123", "4", "Ġ", "Ġx", "!Ċ"]),
        ("qwen2", ["I", "'M", "Ġhere", "1", "2", "3", "4", "Ġ", "Ġx", "!Ċ"]),
        ("gpt-2", ["I", "'", "M", "Ġhere", "1234", "Ġ", "Ġx", "!", "Ċ"]),
    ],
)
def test_words_are_cut_as_the_vocabulary_was_trained(pre: str, words: list[str]) -> None:
    from netgain.text.pre_tokenizers import word_rule

    cut = word_rule(pre).pre_tokenizer.pre_tokenize_str("I'M here1234  x!\n")
    assert [word for word, _ in cut] == words


def test_ids_outside_the_vocabulary_decode_to_nothing(byte_level: Tokenizer) -> None:
    a = byte_level.encode("a")[0]
    assert byte_level.decode([a, 10**6, -1, 2**40, a]) == "aa"
    assert byte_level.token_bytes(10**6) == byte_level.token_bytes(-1) == b""


def test_lone_surrogates_are_an_invalid_request(byte_level: Tokenizer) -> None:
    with pytest.raises(InvalidRequestError, match="surrogate"):
        byte_level.encode("\ud800")


def test_an_unknown_pre_tokenizer_is_refused_with_the_supported_ones() -> None:
    with pytest.raises(ModelError, match=r"'tekken'.*smollm"):
        Tokenizer.from_bpe(["a"], [], [1], "tekken", bos_id=None, eos_ids=[], add_bos=False)


def test_merges_of_unknown_tokens_are_a_model_error() -> None:
    with pytest.raises(ModelError, match="not a valid BPE"):
        Tokenizer.from_bpe(["a"], ["a b"], [1], "gpt-2", bos_id=None, eos_ids=[], add_bos=False)


def test_a_broken_tokenizer_file_is_a_model_error(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text("{}")
    with pytest.raises(ModelError, match=r"tokenizer\.json"):
        Tokenizer.from_file(path)


def test_a_tokenizer_file_states_ids_by_name_or_number(sentencepiece: Tokenizer) -> None:
    assert sentencepiece.bos_id == 0
    assert sentencepiece.eos_ids == {1}
    assert not sentencepiece.is_byte_level
    with pytest.raises(ValueError, match="not byte-level"):
        sentencepiece.token_bytes(5)
