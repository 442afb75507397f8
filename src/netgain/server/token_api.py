"""Text to token ids and back, as the generating endpoints would do it."""

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from netgain.server.body import read_object
from netgain.server.errors import bad_request
from netgain.server.frontend import Frontend
from netgain.server.json_response import json_response
from netgain.server.model_names import ModelNames
from netgain.server.token_requests import (
    Detokenized,
    DetokenizeRequest,
    Tokenized,
    TokenizeRequest,
)
from netgain.text.rendered import RenderedChat
from netgain.text.token_trace import spelled


class TokenApi:
    """The handlers of `/tokenize` and `/detokenize`."""

    def __init__(self, frontend: Frontend, names: ModelNames, max_body_bytes: int) -> None:
        self._frontend = frontend
        self._names = names
        self._max_body_bytes = max_body_bytes

    async def tokenize(self, request: Request) -> Response:
        """The token ids that a prompt or a conversation becomes; 400 where it is too long."""
        body = TokenizeRequest.parse(await read_object(request, self._max_body_bytes))
        self._names.check(body.model)
        text, limits = self._frontend.text, self._frontend.limits().unanswered()
        prompt: str | RenderedChat = body.prompt or ""
        if body.messages is not None:
            prompt = text.render_chat(
                body.messages,
                limits,
                parse_special=body.special_tokens_in_messages,
                add_generation_prompt=body.add_generation_prompt,
            )
        ids: tuple[int, ...] = ()
        if prompt:
            (encoded,) = await text.tokenize(
                (prompt,),
                limits,
                "prompt" if body.messages is None else "messages",
                add_special_tokens=body.add_special_tokens,
            )
            ids = encoded.ids
        elif body.add_special_tokens:
            ids = tuple(text.tokenizer.encode("", add_special_tokens=True))
        strings = None
        if body.return_token_strs:
            strings = [spelled(text.tokenizer, id_)[0] for id_ in ids]
        answer = Tokenized(len(ids), limits.context_tokens, ids, strings)
        return json_response(msgspec.json.encode(answer))

    async def detokenize(self, request: Request) -> Response:
        """The text of token ids; bytes that are no UTF-8 become U+FFFD."""
        fields = await read_object(request, self._max_body_bytes)
        limits = self._frontend.limits().unanswered()
        tokens = fields.get("tokens")
        # Before each is looked at: a body has room for millions of them.
        if isinstance(tokens, list) and len(tokens) > limits.max_prompt_tokens:
            raise limits.too_long(len(tokens), "tokens")
        body = DetokenizeRequest.checked(fields)
        self._names.check(body.model)
        if any(id_ >= limits.vocab_size for id_ in body.tokens):
            raise bad_request(
                f"tokens holds an id outside the vocabulary (0 to {limits.vocab_size - 1})",
                "tokens",
            )
        tokenizer = self._frontend.text.tokenizer
        text = tokenizer.decode(body.tokens, skip_special_tokens=body.skip_special_tokens)
        return json_response(msgspec.json.encode(Detokenized(text)))
