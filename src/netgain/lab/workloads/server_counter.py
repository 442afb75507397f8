"""Counts by asking the measured server: `POST /tokenize` of netgain and vLLM."""

from collections.abc import Mapping, Sequence
from typing import Final

import httpx
import msgspec

from netgain.errors import NetgainError
from netgain.lab.side_client import side_client
from netgain.lab.workloads.token_counter import Message

_TIMEOUT_S: Final = 30.0
_PROBE: Final = "one two three"


class TokenizeUnavailableError(NetgainError):
    """The server has no `/tokenize`, or one that answers in another form."""


class _Tokens(msgspec.Struct):
    tokens: list[int]


class ServerCounter:
    """One request per question, so slower than a local tokenizer; as exact."""

    exact: Final = True

    def __init__(
        self, base_url: str, model: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        """Asks once. Raises `TokenizeUnavailableError` where that is not answered."""
        self._url = f"{base_url.rstrip('/').removesuffix('/v1')}/tokenize"
        self._model: dict[str, object] = {} if model is None else {"model": model}
        self._http = side_client(self._url, _TIMEOUT_S, headers)
        self.description: Final = f"exact: {self._url}"
        try:
            if not self.text_ids(_PROBE):
                raise TokenizeUnavailableError(f"{self._url} does not understand `prompt`")
        except TokenizeUnavailableError:
            self.close()
            raise

    def text_ids(self, text: str) -> Sequence[int]:
        """Without special tokens."""
        return self._ask({"prompt": text, "add_special_tokens": False})

    def prompt_ids(self, text: str) -> Sequence[int]:
        """With them."""
        return self._ask({"prompt": text, "add_special_tokens": True})

    def chat_ids(
        self, messages: Sequence[Message], *, add_generation_prompt: bool = True
    ) -> Sequence[int]:
        """Through the server's template."""
        # The template writes its own special tokens, as in /v1/chat/completions.
        return self._ask(
            {
                "messages": [dict(message) for message in messages],
                "add_generation_prompt": add_generation_prompt,
                "add_special_tokens": False,
            }
        )

    def close(self) -> None:
        """Closes the connection."""
        self._http.close()

    def _ask(self, body: dict[str, object]) -> list[int]:
        try:
            answer = self._http.post(self._url, json={**self._model, **body})
            answer.raise_for_status()
            return msgspec.json.decode(answer.content, type=_Tokens).tokens
        except httpx.HTTPStatusError as error:
            said = error.response.text[:300]
            raise TokenizeUnavailableError(
                f"{self._url} answered {error.response.status_code}: {said}"
            ) from error
        except (httpx.HTTPError, msgspec.DecodeError, msgspec.ValidationError) as error:
            raise TokenizeUnavailableError(f"{self._url} cannot be used: {error}") from error
