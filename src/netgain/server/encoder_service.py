"""Runs a sentence encoder beside the engine: one text at a time, in a thread of its own."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Protocol

from netgain.errors import InvalidRequestError
from netgain.models.sentence_encoder import SentenceEncoder
from netgain.server.errors import ApiError, bad_request, overloaded
from netgain.server.prompts import PromptText
from netgain.text.length import tokens_beyond


class Client(Protocol):
    """Whoever asked, and may have left."""

    async def is_disconnected(self) -> bool:
        """Whether nobody waits for the answer any more."""
        ...


@dataclass(frozen=True, slots=True)
class Encoded:
    """One input's embedding, and how many tokens it had."""

    embedding: tuple[float, ...]
    tokens: int


class EncoderService:
    """Bounds who waits, and notices who left; other requests go on meanwhile."""

    def __init__(self, encoder: SentenceEncoder, max_queue: int) -> None:
        self.encoder: Final = encoder
        self._max_queue = max_queue
        self._inside = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="encode")

    async def embed(self, inputs: Sequence[PromptText], client: Client) -> list[Encoded]:
        """The embeddings in order.

        Raises `ApiError`: 400 for an input that cannot be embedded, 429 when too many wait, 499
        when the client left.
        """
        if self._inside > self._max_queue:
            raise overloaded(self._inside, self._max_queue)
        self._inside += 1
        loop = asyncio.get_running_loop()
        found: list[Encoded] = []
        try:
            for at, one in enumerate(inputs):
                if await client.is_disconnected():
                    raise ApiError(499, "the client went away", code="client_disconnected")
                found.append(await loop.run_in_executor(self._thread, self._encode, at, one))
        finally:
            self._inside -= 1
        return found

    def close(self) -> None:
        """Ends the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _encode(self, at: int, given: PromptText) -> Encoded:
        encoder = self.encoder
        most = encoder.config.max_tokens
        ids: Sequence[int] = given if isinstance(given, tuple) else ()
        if isinstance(given, str):
            least = tokens_beyond(encoder.tokenizer, given, most, parse_special=False)
            if least is not None:
                raise _too_long(at, f"at least {least}", most)
            ids = encoder.tokenizer.encode(given, add_special_tokens=True, parse_special=False)
        if not ids:
            raise InvalidRequestError(f"input {at} has no tokens; it must have one", "input")
        if len(ids) > most:
            raise _too_long(at, str(len(ids)), most)
        if min(ids) < 0 or max(ids) >= encoder.config.vocab_size:
            raise bad_request(
                f"input {at} holds a token id outside the vocabulary "
                f"(0 to {encoder.config.vocab_size - 1})",
                "input",
            )
        return Encoded(tuple(map(float, encoder.embed(ids))), len(ids))


def _too_long(at: int, tokens: str, most: int) -> ApiError:
    return bad_request(
        f"input {at} has {tokens} tokens; at most {most} fit into this embedding model: "
        "cut it into pieces",
        "input",
        "context_length_exceeded",
    )
