"""Stop strings over any cutting of the text give what the whole text gives."""

import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netgain.errors import InvalidRequestError
from netgain.text.stop import StopStrings

pieces = st.lists(st.text(alphabet="abc", max_size=4), max_size=12)
stop_lists = st.lists(st.text(alphabet="abc", min_size=1, max_size=4), max_size=5)


def run(stops: list[str], deltas: list[str]) -> tuple[str, str | None]:
    matcher = StopStrings(stops)
    shown = ""
    for delta in deltas:
        text, matched = matcher.push(delta)
        shown += text
        if matched is not None:
            return shown, matched
    return shown + matcher.finish(), None


def naive(stops: list[str], text: str) -> tuple[str, str | None]:
    for end in range(1, len(text) + 1):
        ending = [stop for stop in stops if text[:end].endswith(stop)]
        if ending:
            longest = max(ending, key=len)
            return text[: end - len(longest)], longest
    return text, None


@given(stops=stop_lists, deltas=pieces)
def test_any_cutting_gives_the_answer_of_the_whole_text(
    stops: list[str], deltas: list[str]
) -> None:
    assert run(stops, deltas) == naive(stops, "".join(deltas))


@given(stops=stop_lists, deltas=pieces)
def test_only_what_could_begin_a_stop_string_is_held_back(
    stops: list[str], deltas: list[str]
) -> None:
    matcher = StopStrings(stops)
    shown = text = ""
    for delta in deltas:
        new, matched = matcher.push(delta)
        if matched is not None:
            return
        shown, text = shown + new, text + delta
        held = text[len(shown) :]
        starts = [
            text[at:] for at in range(len(text)) if any(s.startswith(text[at:]) for s in stops)
        ]
        assert held == max(starts, key=len, default="")


def test_a_stop_string_over_several_deltas_is_not_shown() -> None:
    assert run(["\nUser:"], ["Hello", "\n", "Us", "er:", " more"]) == ("Hello", "\nUser:")


def test_a_false_start_is_shown_at_the_end() -> None:
    assert run(["\nUser:"], ["Hello\nUs"]) == ("Hello\nUs", None)


def test_nothing_is_shown_after_a_match() -> None:
    matcher = StopStrings(["x"])
    assert matcher.push("axb") == ("a", "x")
    assert matcher.push("more") == ("", "x")
    assert matcher.finish() == ""


def test_an_empty_stop_string_is_an_invalid_request() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        StopStrings(["a", ""])
    assert caught.value.param == "stop"


def test_thousands_of_long_stop_strings_cost_no_more_per_character_than_one() -> None:
    many = StopStrings([f"{'ab' * 50}{number}" for number in range(5000)])
    deltas = ["ab" * 10] * 5000
    began = time.process_time()
    for delta in deltas:
        many.push(delta)
    # 100,000 characters; a comparison with every stop string would take minutes.
    assert time.process_time() - began < 2


def test_long_stop_strings_cost_nothing_until_the_text_begins_them() -> None:
    stops = [f"{at:02}" + "x" * 4090 for at in range(64)]
    tracemalloc.start()
    try:
        matchers = [StopStrings(stops) for _ in range(128)]
        for matcher in matchers:
            matcher.push("00xx")
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 64 * 1024 * len(matchers)
