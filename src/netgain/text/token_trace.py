"""Which token brought which part of the text, byte for byte."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from netgain.text.detokenizer import IncrementalDetokenizer
from netgain.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class TracedToken:
    """One token of a text: the bytes it brought, and where its part begins, in characters."""

    id: int
    raw: bytes
    offset: int


class _Run:
    """Tokens whose characters only make sense together: `text` is what all of them became."""

    __slots__ = ("start", "text", "tokens")

    def __init__(self, start: int) -> None:
        self.start = start
        self.text = ""
        self.tokens: list[TracedToken] = []


class TokenTrace:
    """Follows one sequence's tokens, and releases each once all of its text has been shown.

    The released tokens' bytes joined are the UTF-8 of the shown text (bytes that are not UTF-8,
    which the text shows as U+FFFD, come as they are). Where a stop string cuts the text, so are the
    bytes, and tokens past the cut are not released at all.
    """

    def __init__(self, tokenizer: Tokenizer, *, skip_special_tokens: bool = True) -> None:
        self._tokenizer = tokenizer
        self._detokenizer = IncrementalDetokenizer(tokenizer, skip_special_tokens)
        self._silent = tokenizer.special_ids if skip_special_tokens else frozenset[int]()
        self._run = _Run(0)
        self._closed: deque[_Run] = deque()
        self._chars = 0
        self._shown = 0

    @property
    def tokens(self) -> list[TracedToken]:
        """Those taken and not released yet."""
        closed = [token for run in self._closed for token in run.tokens]
        return closed + self._run.tokens

    def push(self, id_: int) -> None:
        """Takes the next token."""
        text = self._detokenizer.push((id_,))
        run = self._run
        raw = self._bytes(id_, text)
        run.tokens.append(TracedToken(id_, raw, self._chars))
        run.text += text
        self._chars += len(text)
        if self._detokenizer.complete:
            self._close_run()

    def shown(self, chars: int) -> list[TracedToken]:
        """So many more characters were shown; returns the tokens whose text is complete now."""
        self._shown += chars
        released: list[TracedToken] = []
        while self._closed and self._closed[0].start + len(self._closed[0].text) <= self._shown:
            released += self._closed.popleft().tokens
        return released

    def finish(self) -> list[TracedToken]:
        """No more text will be shown: returns what is left of it, cut where the text is cut."""
        text = self._detokenizer.finish()
        self._run.text += text
        self._chars += len(text)
        self._close_run()
        released = self.shown(0)
        if self._closed:
            released += _cut(self._closed[0], self._shown)
            self._closed.clear()
        return released

    def _close_run(self) -> None:
        if self._run.tokens:
            self._closed.append(self._run)
        self._run = _Run(self._chars)

    def _bytes(self, id_: int, text: str) -> bytes:
        tokenizer = self._tokenizer
        if id_ in self._silent:
            return b""
        if tokenizer.is_byte_level:
            return tokenizer.token_bytes(id_)
        byte = tokenizer.byte_of(id_)
        if byte is not None:
            return byte
        # The text may begin with characters that earlier byte tokens of this run brought.
        before = b"".join(token.raw for token in self._run.tokens)
        whole = (self._run.text + text).encode()
        return whole.removeprefix(before) if whole.startswith(before) else text.encode()


def _cut(run: _Run, shown: int) -> Sequence[TracedToken]:
    """The tokens of a run of which only a part is shown, with the bytes of that part."""
    left = len(run.text[: max(shown - run.start, 0)].encode())
    tokens: list[TracedToken] = []
    for token in run.tokens:
        if left <= 0:
            break
        tokens.append(TracedToken(token.id, token.raw[:left], token.offset))
        left -= len(token.raw)
    return tokens


def spelled(tokenizer: Tokenizer, id_: int) -> tuple[str, bytes]:
    """A token on its own: its text, and its bytes.

    A control token is its spelling. A token that is no whole character is written as
    `bytes:\\xf0\\x9f`, as OpenAI does, so that different tokens stay different.
    """
    if id_ in tokenizer.special_ids:
        name = tokenizer.token(id_) or ""
        return name, name.encode()
    if tokenizer.is_byte_level:
        raw = tokenizer.token_bytes(id_)
    else:
        raw = tokenizer.byte_of(id_) or tokenizer.text_within(id_).encode()
    try:
        return raw.decode(), raw
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw), raw
