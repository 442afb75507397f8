import pytest
from hypothesis import given
from hypothesis import strategies as st

from netgain.lab.counting import recounted, running_totals
from netgain.lab.record import RequestRecord, TokenCounting, TokenEvent, Usage


def count_words(text: str) -> int:
    """A tokenizer that cuts at spaces, the space belonging to the word after it."""
    return len([word for word in text.split(" ") if word])


def record(events: int, usage: int | None) -> RequestRecord:
    return RequestRecord(
        index=0,
        request_class="chat",
        conversation=0,
        intended_s=0.0,
        events=tuple(TokenEvent(float(at_s), 1) for at_s in range(events)),
        output_tokens=events,
        usage=None if usage is None else Usage(1, usage),
    )


def texts(*pieces: str) -> list[list[tuple[int, str]]]:
    return [[(0, piece)] for piece in pieces]


def counts(counted: RequestRecord) -> list[int]:
    return [event.tokens for event in counted.events]


def test_events_are_counted_over_the_text_so_far() -> None:
    counted = recounted(record(3, None), texts(" one tw", "o", " three four"), count_words)
    assert counts(counted) == [2, 0, 2]
    assert counted.counting is TokenCounting.TOKENIZER
    assert counted.output_tokens == counted.tokenizer_tokens == 4


@pytest.mark.parametrize(("usage", "expected"), [(4, [2, 2]), (5, [2, 3]), (6, [3, 3])])
def test_a_usage_that_is_nearly_the_same_is_what_events_are_scaled_to(
    usage: int, expected: list[int]
) -> None:
    counted = recounted(record(2, usage), texts(" a b", " c d"), count_words)
    assert counts(counted) == expected
    assert counted.output_tokens == usage
    assert counted.tokenizer_tokens == 4


@pytest.mark.parametrize("usage", [0, 1, 7, 400])
def test_a_usage_that_speaks_of_something_else_changes_nothing(usage: int) -> None:
    counted = recounted(record(2, usage), texts(" a b", " c d"), count_words)
    assert counts(counted) == [2, 2]
    assert counted.output_tokens == 4
    assert counted.usage == Usage(1, usage)


def test_what_the_server_counted_is_not_counted_again() -> None:
    running = RequestRecord(
        index=0,
        request_class="chat",
        conversation=0,
        intended_s=0.0,
        events=(TokenEvent(0.0, 9),),
        counting=TokenCounting.USAGE,
    )
    assert recounted(running, texts(" a"), count_words) is running


def test_choices_are_texts_of_their_own() -> None:
    both = [[(0, " a")], [(1, "b")], [(0, "c"), (1, "d")]]
    assert running_totals(both, count_words) == [1, 2, 2]


@given(st.lists(st.text(" ab", max_size=40), min_size=1, max_size=60))
def test_counting_the_end_of_a_long_text_comes_to_the_same_as_counting_all_of_it(
    pieces: list[str],
) -> None:
    so_far, exact = "", []
    for piece in pieces:
        so_far += piece
        exact.append(count_words(so_far))
    assert running_totals(texts(*pieces), count_words) == exact


def test_long_answers_take_linear_time() -> None:
    counted_characters = 0

    def count(text: str) -> int:
        nonlocal counted_characters
        counted_characters += len(text)
        return count_words(text)

    assert running_totals(texts(*[" word"] * 4000), count)[-1] == 4000
    assert counted_characters < 4000 * 300
