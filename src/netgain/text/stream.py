"""A sequence's ids to the text its client sees: detokenised and cut at the first stop string."""

from collections.abc import Sequence
from dataclasses import dataclass

from netgain.text.detokenizer import IncrementalDetokenizer
from netgain.text.stop import StopStrings
from netgain.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class TextDelta:
    """New text to show; `stop` is the stop string that ended the text, None while none did."""

    text: str
    stop: str | None = None

    @property
    def stopped(self) -> bool:
        """Whether a stop string has been found: the sequence should be aborted."""
        return self.stop is not None


class TextStream:
    """Joins detokeniser and stop strings for one sequence.

    All deltas joined are the text of the non-streamed response. `tokens` counts the ids taken up to
    and including the one that completed a stop string, however many arrive at once, so usage does
    not depend on how ids are grouped. Stop strings are looked for only in text that the first
    `min_tokens` tokens did not complete.
    """

    def __init__(
        self, tokenizer: Tokenizer, stops: Sequence[str] = (), min_tokens: int = 0
    ) -> None:
        self._detokenizer = IncrementalDetokenizer(tokenizer)
        self._min_tokens = min_tokens
        self._stops = StopStrings(stops) if stops else None
        self.tokens = 0

    def push(self, ids: Sequence[int]) -> TextDelta:
        """Takes the next ids; after a stop string they are ignored and uncounted."""
        if self._stops is None:
            self.tokens += len(ids)
            return TextDelta(self._detokenizer.push(ids))
        shown: list[str] = []
        for id_ in ids:
            if self._stops.matched is not None:
                break
            self.tokens += 1
            text = self._detokenizer.push((id_,))
            shown.append(text if self.tokens <= self._min_tokens else self._stops.push(text)[0])
        return TextDelta("".join(shown), self._stops.matched)

    def finish(self) -> TextDelta:
        """The sequence ended: the text still held back."""
        rest = self._detokenizer.finish()
        if self._stops is None or self.tokens <= self._min_tokens:
            return TextDelta(rest)
        shown, stop = self._stops.push(rest)
        return TextDelta(shown + self._stops.finish(), stop)
