"""Finds stop strings in text that arrives in pieces."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final

from netgain.errors import InvalidRequestError


class _State:
    """A prefix of stop strings: the first `depth` characters of `stops[low:high]`, sorted."""

    __slots__ = ("depth", "fallback", "following", "high", "low", "stop")

    def __init__(self, low: int, high: int, depth: int, stop: str | None) -> None:
        self.low: Final = low
        self.high: Final = high
        self.depth: Final = depth
        self.stop = stop
        self.fallback = self
        self.following: dict[str, _State] = {}


class StopStrings:
    """An Aho-Corasick automaton over the stop strings, fed delta by delta.

    The earliest *end* of a stop string in the text wins; of several that end at that character the
    longest does, so that no part of any of them is shown. Text is held back only while it could
    still begin a stop string: the longest suffix that is a prefix of one. Cost: about constant
    per character of text. States are made when the text reaches them, so that long stop strings
    which it never begins cost nothing.

    Raises `InvalidRequestError` for an empty stop string.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        if not all(stops):
            raise InvalidRequestError("a stop string must not be empty", param="stop")
        self._stops = sorted(set(stops))
        self._firsts = {stop[0] for stop in stops}
        self._root = self._state = _State(0, len(self._stops), 0, None)
        self._held = ""
        self.matched: str | None = None

    def push(self, delta: str) -> tuple[str, str | None]:
        """Takes more text; returns what may be shown now, and the stop string once one is found.

        After a match nothing more is shown, whatever is pushed.
        """
        if self.matched is not None:
            return "", self.matched
        if self._state is self._root and self._firsts.isdisjoint(delta):
            return delta, None
        text = self._held + delta
        for at, char in enumerate(delta, start=len(self._held) + 1):
            self._state = self._step(self._state, char)
            self.matched = self._state.stop
            if self.matched is not None:
                self._held = ""
                return text[: at - len(self.matched)], self.matched
        shown = len(text) - self._state.depth
        self._held = text[shown:]
        return text[:shown], None

    def finish(self) -> str:
        """The text ended: returns what was held back (nothing after a match)."""
        held, self._held, self._state = self._held, "", self._root
        return held

    def _step(self, state: _State, char: str) -> _State:
        while (following := self._following(state, char)) is None:
            if state is self._root:
                return state
            state = state.fallback
        return following

    def _following(self, state: _State, char: str) -> _State | None:
        """The state one character on, made now if there is one that was not needed before."""
        known = state.following.get(char)
        if known is not None:
            return known
        depth = state.depth

        def next_char(stop: str) -> str:
            return stop[depth : depth + 1]

        stops = self._stops
        low = bisect_left(stops, char, state.low, state.high, key=next_char)
        high = bisect_right(stops, char, low, state.high, key=next_char)
        if low == high:
            return None
        made = _State(low, high, depth + 1, stops[low] if len(stops[low]) == depth + 1 else None)
        made.fallback = self._root if state is self._root else self._step(state.fallback, char)
        if made.stop is None:
            made.stop = made.fallback.stop
        state.following[char] = made
        return made
