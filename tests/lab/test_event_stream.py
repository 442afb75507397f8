from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from netgain.lab.answer import read_stream, read_whole
from netgain.lab.event_stream import stream_events


def pieces(body: bytes, cuts: list[int]) -> list[tuple[float, bytes]]:
    """A body cut at places, the pieces timed 0, 1, 2, ..."""
    places = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    found = [body[a:b] for a, b in pairwise(places) if b > a]
    return [(float(at_s), piece) for at_s, piece in enumerate(found)]


LINES = st.lists(st.sampled_from(["data: a", "data:b", "data: é日", ":ping", "id: 1", "", "x"]))
ENDS = st.sampled_from(["\n", "\r\n", "\r"])


@given(LINES, ENDS, st.lists(st.integers(0, 200), max_size=8))
def test_events_do_not_depend_on_how_the_body_was_cut(
    lines: list[str], end: str, cuts: list[int]
) -> None:
    body = "".join(line + end for line in lines).encode()
    whole = [data for _, data in stream_events(pieces(body, []))]
    parts = pieces(body, cuts)
    events = list(stream_events(parts))
    assert [data for _, data in events] == whole
    times = [at_s for at_s, _ in events]
    assert times == sorted(times)


@given(ENDS, st.integers(1, 40))
def test_an_event_is_whole_when_its_empty_line_was_read(end: str, cut: int) -> None:
    body = f"data: one{end}{end}data: two{end}{end}".encode()
    first = len(f"data: one{end}".encode())
    events = list(stream_events(pieces(body, [cut])))
    assert [data for _, data in events] == [b"one", b"two"]
    assert events[0][0] == (0.0 if cut > first else 1.0 if cut < len(body) else 0.0)


def test_lines_of_data_are_joined_and_a_byte_order_mark_is_skipped() -> None:
    body = b"\xef\xbb\xbfdata: a\ndata\ndata:  b\n\ndata: lost"
    assert list(stream_events([(1.0, body)])) == [(1.0, b"a\n\n b")]


def test_a_last_done_needs_no_empty_line() -> None:
    assert list(stream_events([(1.0, b"data: [DONE]")])) == [(1.0, b"[DONE]")]
    assert list(stream_events([(1.0, b"data: [DONE]\n")])) == [(1.0, b"[DONE]")]
    assert list(stream_events([])) == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["choices", "delta", "usage", "error", "text", "netgain", "index"]),
            inner,
        )
    ),
)


@given(st.lists(JSON | st.text(max_size=20)))
def test_nothing_a_server_says_breaks_the_reading(events: list[object]) -> None:
    import msgspec

    encoded = [msgspec.json.encode(event) for event in events]
    body = b"".join(b"data: " + event + b"\n\n" for event in encoded)
    read_stream([(0.0, body)])
    for event in encoded:
        read_whole([(0.0, event)])


@given(st.binary(max_size=60))
def test_no_bytes_break_the_reading(body: bytes) -> None:
    read_stream([(0.0, body)])
    read_stream([(0.0, b"data: " + body + b"\n\n")])
    read_whole([(0.0, body)])
