"""Text from token ids as they arrive, never showing half a character."""

import codecs
from collections.abc import Sequence
from typing import Protocol

from netgain.text.tokenizer import Tokenizer


class _Decoding(Protocol):
    @property
    def complete(self) -> bool: ...

    def push(self, ids: Sequence[int]) -> str: ...

    def finish(self) -> str: ...


class IncrementalDetokenizer:
    """One sequence's ids in, its text out.

    All pushes and `finish` joined equal `tokenizer.decode` of all ids, and a character split over
    tokens comes out whole, with its last token. U+FFFD appears only where `decode` has it too.
    """

    def __init__(self, tokenizer: Tokenizer, skip_special_tokens: bool = True) -> None:
        self._skipped = tokenizer.special_ids if skip_special_tokens else frozenset[int]()
        self._decoding: _Decoding = (
            _ByteDecoding(tokenizer) if tokenizer.is_byte_level else _WindowDecoding(tokenizer)
        )

    @property
    def complete(self) -> bool:
        """Whether all that was pushed has become text: no character is unfinished."""
        return self._decoding.complete

    def push(self, ids: Sequence[int]) -> str:
        """Takes the next ids; returns the text they complete, possibly none."""
        if not self._skipped.isdisjoint(ids):
            ids = [id_ for id_ in ids if id_ not in self._skipped]
        return self._decoding.push(ids)

    def finish(self) -> str:
        """Returns what is left: an unfinished character becomes U+FFFD. No push may follow."""
        return self._decoding.finish()


class _ByteDecoding:
    """Byte-level vocabularies: tokens are bytes, so each costs its own length only."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._bytes_of = tokenizer.token_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def complete(self) -> bool:
        return not self._decoder.getstate()[0]

    def push(self, ids: Sequence[int]) -> str:
        return self._decoder.decode(b"".join(map(self._bytes_of, ids)))

    def finish(self) -> str:
        return self._decoder.decode(b"", final=True)


class _WindowDecoding:
    """Other vocabularies: the decoder needs neighbours, so a short window is decoded twice.

    The window is the ids of the last text shown (`[start:shown]`) and those after it: their
    decoding with the new ids, less their decoding without, is the new text. Both begin alike, so
    whatever the decoder does at the start of a text cancels out.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._window: list[int] = []
        self._shown = 0

    @property
    def complete(self) -> bool:
        return self._shown == len(self._window)

    def push(self, ids: Sequence[int]) -> str:
        self._window += [id_ for id_ in ids if self._tokenizer.token(id_) is not None]
        return self._advance(self._complete())

    def finish(self) -> str:
        return self._advance(len(self._window))

    def _complete(self) -> int:
        """How many ids of the window have a final text.

        With byte fallback a run of byte tokens is decoded as a whole (one bad byte spoils all of
        it), so a run is final only once another token ends it.
        """
        end = len(self._window)
        if not self._tokenizer.has_byte_fallback:
            return end
        while end > self._shown and self._tokenizer.byte_of(self._window[end - 1]) is not None:
            end -= 1
        return end

    def _advance(self, end: int) -> str:
        if end == self._shown:
            return ""
        before = self._decode(self._window[: self._shown])
        after = self._decode(self._window[:end])
        if len(after) <= len(before) or not after.startswith(before):
            return ""
        del self._window[: self._shown]
        self._shown = end - self._shown
        return after[len(before) :]

    def _decode(self, ids: Sequence[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=False)
