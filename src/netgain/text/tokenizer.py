"""Text to token ids and back, over the `tokenizers` library."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from functools import cached_property
from pathlib import Path
from typing import Final

import tokenizers
from tokenizers import AddedToken, decoders, models

from netgain.errors import InvalidRequestError, ModelError
from netgain.text.encoding import token_ids
from netgain.text.literal_front import LiteralFront
from netgain.text.pre_tokenizers import word_rule


class TokenType(IntEnum):
    """GGUF's `tokenizer.ggml.token_type`."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


def _byte_of_char() -> dict[str, int]:
    """GPT-2's printable stand-ins for the 256 bytes (`bytes_to_unicode` of its encoder.py)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = sorted(set(range(256)) - set(printable))
    stand_ins = {chr(256 + index): byte for index, byte in enumerate(rest)}
    return {chr(byte): byte for byte in printable} | stand_ins


_BYTE_TOKEN: Final = re.compile(r"<0x([0-9A-Fa-f]{2})>")

BYTE_OF_CHAR: Final = _byte_of_char()
"""The byte each character of a byte-level vocabulary stands for."""


class Tokenizer:
    """One model's vocabulary; safe to share between threads.

    Control tokens (`special_ids`) written out in text (`<|im_start|>`) are recognised there unless
    `parse_special=False`. Ids outside the vocabulary decode to nothing.
    """

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        *,
        vocab_size: int,
        bos_id: int | None,
        eos_ids: Iterable[int],
        prepend_bos: bool = False,
    ) -> None:
        self.vocab_size: Final = vocab_size
        self.bos_id: Final = bos_id
        self.eos_ids: Final = frozenset(eos_ids)
        added = backend.get_added_tokens_decoder()
        self.special_ids: Final = frozenset(id_ for id_, token in added.items() if token.special)
        types = _decoder_types(backend.decoder)
        self.is_byte_level: Final = types == ("ByteLevel",)
        self.has_byte_fallback: Final = "ByteFallback" in types
        self.special_tokens: Final = tuple(
            token.content for token in added.values() if token.special
        )
        self._backend = backend
        self._prepend_bos = prepend_bos and bos_id is not None
        self._bytes: dict[int, bytes] = {}

    @classmethod
    def from_bpe(
        cls,
        tokens: Sequence[str],
        merges: Sequence[str],
        token_types: Sequence[int],
        pre: str,
        *,
        bos_id: int | None,
        eos_ids: Iterable[int],
        add_bos: bool,
    ) -> "Tokenizer":
        """A byte-level BPE vocabulary as GGUF states it (`tokenizer.ggml.model` = `gpt2`).

        `merges` are pairs joined by a space, best first; `token_types` are `TokenType` values, one
        per token: control and user-defined tokens are cut out of the text before anything else.
        Raises `ModelError` for an unknown `pre` or a vocabulary that contradicts itself.
        """
        rule = word_rule(pre)
        if len(token_types) != len(tokens):
            raise ModelError(
                f"the vocabulary has {len(tokens)} tokens but {len(token_types)} token types"
            )
        vocabulary = {token: id_ for id_, token in enumerate(tokens)}
        pairs = [(left, right) for left, _, right in (merge.partition(" ") for merge in merges)]
        try:
            bpe = models.BPE(vocabulary, pairs, ignore_merges=rule.ignore_merges)
        except Exception as error:  # the library raises bare `Exception`
            raise ModelError(f"the vocabulary is not a valid BPE: {error}") from error
        backend = tokenizers.Tokenizer(bpe)
        backend.pre_tokenizer = rule.pre_tokenizer
        backend.decoder = decoders.ByteLevel()
        if rule.normalizer is not None:
            backend.normalizer = rule.normalizer
        cut_out = (TokenType.CONTROL, TokenType.USER_DEFINED)
        backend.add_tokens(
            [
                AddedToken(token, special=kind == TokenType.CONTROL, normalized=False)
                for token, kind in zip(tokens, token_types, strict=True)
                if kind in cut_out and token
            ]
        )
        return cls(
            backend,
            vocab_size=len(tokens),
            bos_id=bos_id,
            eos_ids=eos_ids,
            prepend_bos=add_bos,
        )

    @classmethod
    def from_file(
        cls, path: Path, *, bos_token: str | None = None, eos_tokens: Iterable[str | int] = ()
    ) -> "Tokenizer":
        """A `tokenizer.json` of the `tokenizers` library.

        The file does not say which tokens begin and end a sequence: the caller does, by text or by
        id; names that the vocabulary lacks are ignored. Raises `ModelError` for an unreadable file.
        """
        try:
            backend = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises bare `Exception`
            raise ModelError(f"{path}: not a readable tokenizer.json: {error}") from error
        # A file may ask for cut or padded encodings; a server must never cut a prompt silently.
        backend.no_truncation()
        backend.no_padding()
        ends = (end if isinstance(end, int) else backend.token_to_id(end) for end in eos_tokens)
        ids = backend.get_vocab().values()
        return cls(
            backend,
            vocab_size=max(ids, default=-1) + 1,
            bos_id=None if bos_token is None else backend.token_to_id(bos_token),
            eos_ids=[end for end in ends if end is not None],
        )

    def encode(
        self, text: str, *, add_special_tokens: bool = False, parse_special: bool = True
    ) -> list[int]:
        """Token ids of `text`.

        `add_special_tokens` adds what the model expects around a prompt (a beginning-of-sequence
        token, mostly); `parse_special=False` takes control tokens in `text` as plain characters.
        Raises `InvalidRequestError` for text that is not valid Unicode (lone surrogates).
        """
        try:
            if parse_special:
                ids = token_ids(self._backend, text, add_special_tokens=add_special_tokens)
            else:
                ids = self._literal.encode(text, None, add_special_tokens)
        except TypeError as error:
            raise InvalidRequestError("the text holds lone surrogates (invalid Unicode)") from error
        if add_special_tokens and self._prepend_bos and self.bos_id is not None:
            return [self.bos_id, *ids]
        return ids

    def encode_quoted(self, text: str, quoted: Mapping[str, str]) -> list[int]:
        """Token ids of `text`, in which each mark of `quoted` stands for plain characters.

        Control tokens written in `text` itself are recognised; those that a mark stands for are
        not. Raises `InvalidRequestError` for text that is not valid Unicode.
        """
        if not quoted:
            return self.encode(text)
        try:
            return self._literal.encode(text, quoted, add_special_tokens=False)
        except TypeError as error:
            raise InvalidRequestError("the text holds lone surrogates (invalid Unicode)") from error

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Text of `ids`; bytes that are not UTF-8 become U+FFFD."""
        try:
            return self._backend.decode(ids, skip_special_tokens=skip_special_tokens)
        except OverflowError:
            known = [id_ for id_ in ids if 0 <= id_ < self.vocab_size]
            return self._backend.decode(known, skip_special_tokens=skip_special_tokens)

    def token(self, id_: int) -> str | None:
        """The vocabulary's own spelling of a token (not its text), None outside the vocabulary."""
        return self._backend.id_to_token(id_) if 0 <= id_ < self.vocab_size else None

    def token_id(self, token: str) -> int | None:
        """The id of a token by the vocabulary's own spelling."""
        return self._backend.token_to_id(token)

    def token_bytes(self, id_: int) -> bytes:
        """The bytes one token adds to the text; empty outside the vocabulary.

        Only for byte-level vocabularies (`is_byte_level`); raises `ValueError` for others, whose
        tokens have no bytes of their own.
        """
        if not self.is_byte_level:
            raise ValueError("this vocabulary is not byte-level: its tokens have no bytes")
        found = self._bytes.get(id_)
        if found is None:
            found = _bytes_of(self.token(id_) or "")
            self._bytes[id_] = found
        return found

    def byte_of(self, id_: int) -> bytes | None:
        """The one byte that a byte-fallback token (`<0xE2>`) stands for; None for all others."""
        if not self.has_byte_fallback:
            return None
        found = _BYTE_TOKEN.fullmatch(self.token(id_) or "")
        return None if found is None else bytes([int(found[1], 16)])

    def text_within(self, id_: int) -> str:
        """The text of one token as it reads inside a text, not at its beginning.

        Some decoders drop a space at the beginning; between two other tokens they do not.
        """
        neighbour = self._neighbour
        if neighbour is None:
            return self.decode((id_,), skip_special_tokens=False)
        before = self.decode((neighbour,), skip_special_tokens=False)
        both = self.decode((neighbour, id_), skip_special_tokens=False)
        return both.removeprefix(before)

    @cached_property
    def _neighbour(self) -> int | None:
        """Some ordinary token that has a text."""
        ordinary = (id_ for id_ in range(self.vocab_size) if id_ not in self.special_ids)
        return next((id_ for id_ in ordinary if self.decode((id_,)).isalnum()), None)

    @cached_property
    def _literal(self) -> LiteralFront:
        """Made when first needed: it takes as long as loading the vocabulary does."""
        return LiteralFront(self._backend)


def _bytes_of(token: str) -> bytes:
    """As the library's ByteLevel decoder: a token with any other character stands for itself."""
    try:
        return bytes(BYTE_OF_CHAR[char] for char in token)
    except KeyError:
        return token.encode()


def _decoder_types(decoder: decoders.Decoder | None) -> tuple[str, ...]:
    if decoder is None:
        return ()
    state = json.loads(decoder.__getstate__())
    if state["type"] != "Sequence":
        return (state["type"],)
    return tuple(part["type"] for part in state["decoders"])
