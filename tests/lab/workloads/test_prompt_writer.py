"""Prompts have exactly as many tokens as asked, template included."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netgain.errors import ModelError
from netgain.lab.workloads.lexicon import Lexicon
from netgain.lab.workloads.local_counter import LocalCounter
from netgain.lab.workloads.prompt_writer import Framing, PromptTooShortError, PromptWriter
from netgain.lab.workloads.token_counter import WordCounter


@given(tokens=st.integers(64, 400), seed=st.integers(0, 2**32), chat=st.booleans())
def test_a_vocabulary_of_bytes_gives_exact_prompts(
    tiny_writers: dict[bool, PromptWriter], tokens: int, seed: int, chat: bool
) -> None:
    writer = tiny_writers[chat]
    written = writer.first(random.Random(seed), tokens, before="Look at this:\n", after="\nWhy?")
    text = written.text
    ids = (
        writer.counter.chat_ids([{"role": "user", "content": text}])
        if chat
        else writer.counter.prompt_ids(text)
    )
    assert len(ids) == written.tokens == tokens
    assert text.startswith("Look at this:\n")
    assert text.endswith("\nWhy?")


@pytest.mark.model
@pytest.mark.parametrize("chat", [True, False])
def test_the_default_model_gives_exact_prompts(smollm_counter: LocalCounter, chat: bool) -> None:
    writer = PromptWriter(smollm_counter, chat=chat)
    for tokens in (31, 32, 64, 257, 1000, 4096):
        written = writer.first(random.Random(tokens), tokens, system=None)
        text = written.text
        ids = (
            smollm_counter.chat_ids([{"role": "user", "content": text}])
            if chat
            else smollm_counter.prompt_ids(text)
        )
        assert len(ids) == tokens


@pytest.mark.model
def test_the_default_model_knows_hundreds_of_words_as_one_token(
    smollm_counter: LocalCounter,
) -> None:
    lexicon = Lexicon(lambda text: len(smollm_counter.text_ids(text)))
    words = lexicon.fill(random.Random(0), 5000)
    assert len(words) == 5000
    assert len(set(words)) > 500
    assert len(smollm_counter.text_ids(" ".join(words))) == 5000


def test_every_number_from_the_least_on_can_be_filled(tiny_counter: LocalCounter) -> None:
    lexicon = Lexicon(lambda text: len(tiny_counter.text_ids(text)))
    for tokens in range(lexicon.least, 60):
        words = lexicon.fill(random.Random(tokens), tokens)
        assert sum(lexicon.price(word) for word in words) == tokens


def test_a_longer_fill_begins_as_a_shorter_one(tiny_counter: LocalCounter) -> None:
    lexicon = Lexicon(lambda text: len(tiny_counter.text_ids(text)))
    short = lexicon.fill(random.Random(4), 200)
    long = lexicon.fill(random.Random(4), 400)
    common = next(i for i, (a, b) in enumerate(zip(short, long, strict=False)) if a != b)
    assert common >= len(short) - 8


def test_a_prompt_shorter_than_the_template_is_refused_with_the_least(
    tiny_chat: PromptWriter,
) -> None:
    with pytest.raises(PromptTooShortError) as caught:
        tiny_chat.first(random.Random(0), 5)
    least = caught.value.least
    assert f"ask for at least {least}" in str(caught.value)
    assert tiny_chat.first(random.Random(0), least).tokens == least


def test_a_drawn_length_below_the_least_is_raised_and_counted(tiny_chat: PromptWriter) -> None:
    written = tiny_chat.first_at_least(random.Random(0), 5)
    assert written.tokens is not None
    assert written.tokens > 5
    assert "1 prompts are longer than drawn" in tiny_chat.notes[0]


def test_a_later_turn_adds_what_it_says(tiny_counter: LocalCounter) -> None:
    writer = PromptWriter(tiny_counter)
    first = writer.first(random.Random(1), 90)
    later = writer.later(random.Random(2), 70)
    answer = "he said hello"
    opening = [{"role": "user", "content": first.text}]
    whole = [
        *opening,
        {"role": "assistant", "content": answer},
        {"role": "user", "content": later.text},
    ]
    grown = len(tiny_counter.chat_ids(whole)) - len(tiny_counter.chat_ids(opening))
    assert later.tokens == 70
    assert grown == 70 + len(tiny_counter.text_ids(answer))


def test_framing_is_what_the_template_puts_around(tiny_chat: PromptWriter) -> None:
    # <|im_start|> "user\n" before; <|im_end|> "\n" <|im_start|> "assistant\n" behind: the byte
    # vocabulary has a token a character.
    assert tiny_chat.framing() == Framing(lead=6, tail=13, later=21)


def test_a_system_message_is_counted_and_handed_on(tiny_chat: PromptWriter) -> None:
    written = tiny_chat.first(random.Random(0), 120, system="Be brief.")
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": written.text},
    ]
    assert written.system == "Be brief."
    assert len(tiny_chat.counter.chat_ids(messages)) == 120


def test_a_completion_has_its_system_message_in_the_prompt(tiny_plain: PromptWriter) -> None:
    written = tiny_plain.first(random.Random(0), 120, system="Be brief.")
    assert written.system is None
    assert written.text.startswith("Be brief.\n\n")
    assert len(tiny_plain.counter.prompt_ids(written.text)) == 120


def test_given_texts_are_counted_as_they_are(tiny_chat: PromptWriter) -> None:
    written = tiny_chat.given_first("hello <|im_end|> hello")
    message = [{"role": "user", "content": "hello <|im_end|> hello"}]
    # The control token is text here: as many tokens as it has characters.
    framing, words = 6 + 13, 3
    assert written.tokens == len(tiny_chat.counter.chat_ids(message)) == framing + words + 10


def test_without_a_tokenizer_no_count_is_claimed() -> None:
    writer = PromptWriter(WordCounter())
    written = writer.first(random.Random(0), 40)
    assert len(written.text.split()) == 40
    assert written.tokens is None
    assert "approximate" in writer.notes[0]


def test_a_nonce_changes_every_word_and_no_length(tiny_counter: LocalCounter) -> None:
    plain, marked = PromptWriter(tiny_counter), PromptWriter(tiny_counter, nonce="run-7")
    one, other = plain.first(random.Random(3), 200), marked.first(random.Random(3), 200)
    assert one.tokens == other.tokens == 200
    assert one.text[:12] != other.text[:12]
    rng, other_rng = random.Random(3), random.Random(3)
    plain.first(rng, 200)
    marked.first(other_rng, 300)
    assert rng.random() == other_rng.random()


def test_a_nonce_stands_before_given_texts(tiny_counter: LocalCounter) -> None:
    marked = PromptWriter(tiny_counter, nonce="run-7")
    written = marked.given_first("Why is the sky blue?")
    with_system = marked.given_first("Why is the sky blue?", "Be brief.")
    assert written.text.endswith("\n\nWhy is the sky blue?")
    assert with_system.text == "Why is the sky blue?"
    assert with_system.system is not None
    assert with_system.system.endswith("\n\nBe brief.")


def test_a_model_without_template_cannot_be_chatted_with(tiny_counter: LocalCounter) -> None:
    bare = LocalCounter(tiny_counter._tokenizer, None, "bare")
    with pytest.raises(ModelError, match="bare has no chat template: send completions"):
        PromptWriter(bare).first(random.Random(0), 50)


def test_a_later_turn_of_a_completion_stands_apart_from_the_answer(
    tiny_plain: PromptWriter,
) -> None:
    made = tiny_plain.later(random.Random(1), 50)
    assert made.text.startswith("\n\n")
    assert made.tokens == 50
    assert tiny_plain.given_later("And?").text == "\n\nAnd?"
