"""Finds stop strings in text that arrives in pieces."""

from collections import deque
from collections.abc import Sequence

from netgain.errors import InvalidRequestError

_ROOT = 0


class StopStrings:
    """An Aho-Corasick automaton over the stop strings, fed delta by delta.

    The earliest *end* of a stop string in the text wins; of several that end at that character the
    longest does, so that no part of any of them is shown. Text is held back only while it could
    still begin a stop string: the longest suffix that is a prefix of one. Cost: linear in the
    characters of the stop strings once, then constant per character of text.

    Raises `InvalidRequestError` for an empty stop string.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        if not all(stops):
            raise InvalidRequestError("a stop string must not be empty", param="stop")
        self._next: list[dict[str, int]] = [{}]
        self._depth = [0]
        self._stop: list[str | None] = [None]
        for stop in stops:
            self._add(stop)
        self._fallback = self._link()
        self._state = _ROOT
        self._held = ""
        self.matched: str | None = None

    def push(self, delta: str) -> tuple[str, str | None]:
        """Takes more text; returns what may be shown now, and the stop string once one is found.

        After a match nothing more is shown, whatever is pushed.
        """
        if self.matched is not None:
            return "", self.matched
        if self._state == _ROOT and self._next[_ROOT].keys().isdisjoint(delta):
            return delta, None
        text = self._held + delta
        for at, char in enumerate(delta, start=len(self._held) + 1):
            self._state = self._step(self._state, char)
            self.matched = self._stop[self._state]
            if self.matched is not None:
                self._held = ""
                return text[: at - len(self.matched)], self.matched
        shown = len(text) - self._depth[self._state]
        self._held = text[shown:]
        return text[:shown], None

    def finish(self) -> str:
        """The text ended: returns what was held back (nothing after a match)."""
        held, self._held, self._state = self._held, "", _ROOT
        return held

    def _step(self, state: int, char: str) -> int:
        while (following := self._next[state].get(char)) is None:
            if state == _ROOT:
                return _ROOT
            state = self._fallback[state]
        return following

    def _add(self, stop: str) -> None:
        state = _ROOT
        for char in stop:
            following = self._next[state].get(char)
            if following is None:
                following = len(self._next)
                self._next[state][char] = following
                self._next.append({})
                self._depth.append(self._depth[state] + 1)
                self._stop.append(None)
            state = following
        self._stop[state] = stop

    def _link(self) -> list[int]:
        """Per state, the state of its longest proper suffix; also inherits shorter stops there."""
        self._fallback = [_ROOT] * len(self._next)
        queue = deque(self._next[_ROOT].values())
        while queue:
            state = queue.popleft()
            for char, following in self._next[state].items():
                self._fallback[following] = self._step(self._fallback[state], char)
                queue.append(following)
            if self._stop[state] is None:
                self._stop[state] = self._stop[self._fallback[state]]
        return self._fallback
