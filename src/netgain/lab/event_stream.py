"""Server-sent events out of a body that came in pieces, each event with the time it was whole."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

_LINE_END: Final = re.compile(rb"\r\n|\r|\n")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
DONE: Final = b"[DONE]"


def stream_events(parts: Sequence[tuple[float, bytes]]) -> Iterator[tuple[float, bytes]]:
    """The data of each event, as the HTML standard reads them (section 9.2.6).

    An event is whole, and has its time, when the piece was read that holds the empty line after it.
    Comments and fields other than `data` are dropped, and so is an event without that line; but a
    final `[DONE]` needs none.
    """
    body = b"".join(part for _, part in parts)
    start = len(_BYTE_ORDER_MARK) if body.startswith(_BYTE_ORDER_MARK) else 0
    data: list[bytes] = []
    index, reached = 0, len(parts[0][1]) if parts else 0
    for match in _LINE_END.finditer(body, start):
        line = body[start : match.start()]
        start = match.end()
        if line:
            data.extend(_value(line))
        elif data:
            while reached <= match.start():
                index += 1
                reached += len(parts[index][1])
            yield parts[index][0], b"\n".join(data)
            data.clear()
    data.extend(_value(body[start:]))
    if data == [DONE]:
        yield parts[-1][0], DONE


def _value(line: bytes) -> tuple[bytes, ...]:
    """What a line adds to the data."""
    name, _, value = line.partition(b":")
    if name != b"data":
        return ()
    return (value.removeprefix(b" "),)
