"""The bodies of a conversation's requests."""

from typing import Final

import msgspec

from netgain.errors import ConfigurationError
from netgain.lab.conversation import NO_FIELDS, Conversation
from netgain.lab.target import Api, Target

_FIELDS: Final = msgspec.json.Decoder(dict[str, object])
_encode: Final = msgspec.json.encode


def check_conversation(conversation: Conversation, target: Target) -> None:
    """Raises `ConfigurationError` for a conversation that this target cannot be asked."""
    exact = any(turn.token_ids is not None for turn in conversation.turns)
    if exact and target.api is Api.CHAT:
        raise ConfigurationError(
            "the workload's prompts are exact token ids, which a chat cannot carry: "
            "use the completions API"
        )
    forced = any(turn.exact_length for turn in conversation.turns)
    if forced and not target.dialect.exact_length:
        raise ConfigurationError(
            "the workload asks for answers of exact length, but the server takes neither "
            "ignore_eos nor min_tokens: let answers end by themselves"
        )
    if not conversation.turns:
        raise ConfigurationError("a conversation without turns cannot be asked")
    if conversation.fields != NO_FIELDS:
        parse_fields(conversation.fields, "the workload's fields")


def parse_fields(fields: bytes | msgspec.Raw, what: str) -> dict[str, object]:
    """A JSON object as values. Raises `ConfigurationError`."""
    try:
        return _FIELDS.decode(fields)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{what} are no JSON object: {error}") from error


class Dialogue:
    """One conversation under way: what was said so far stands before each next turn.

    A later turn of a completion has the earlier prompts and answers before it as text, too; but a
    turn of `token_ids` is the whole prompt itself.
    """

    def __init__(self, target: Target, conversation: Conversation) -> None:
        self._target = target
        self._conversation = conversation
        self._fields = {
            **parse_fields(conversation.fields, "the workload's fields"),
            **parse_fields(target.fields, "the extra fields"),
        }
        self._messages: list[dict[str, str]] = []
        if conversation.system is not None:
            self._messages.append({"role": "system", "content": conversation.system})
        self._before_tokens: int | None = 0

    def body(self, turn: int) -> bytes:
        """The body of a turn; the turns before it were `answered`."""
        asked = self._conversation.turns[turn]
        fields: dict[str, object] = {"model": self._target.model}
        if self._target.api is Api.CHAT:
            self._messages.append({"role": "user", "content": asked.text})
            fields["messages"] = self._messages
        elif asked.token_ids is not None:
            fields["prompt"] = asked.token_ids
        else:
            self._messages.append({"role": "user", "content": asked.text})
            fields["prompt"] = "".join(message["content"] for message in self._messages)
        dialect = self._target.dialect
        if self._target.stream:
            fields["stream"] = True
            if dialect.usage:
                options = {"include_usage": True}
                if dialect.running_usage:
                    options["continuous_usage_stats"] = True
                fields["stream_options"] = options
        fields[dialect.limit_field] = asked.max_tokens
        if asked.exact_length:
            fields["ignore_eos"] = True
            fields["min_tokens"] = asked.max_tokens
        fields |= self._fields
        if dialect.ledger:
            own = fields.get("netgain")
            fields["netgain"] = {"ledger": True, **(own if isinstance(own, dict) else {})}
        return _encode(fields)

    def prompt_tokens(self, turn: int) -> int | None:
        """The client's count of a turn's whole prompt, if it is known."""
        own = self._conversation.turns[turn].prompt_tokens
        if own is None or self._before_tokens is None:
            return None
        return own if turn == 0 else self._before_tokens + own

    def answered(self, turn: int, text: str, tokens: int | None) -> None:
        """What came back for a turn, and its tokens as the server counted them."""
        self._messages.append({"role": "assistant", "content": text})
        prompt = self.prompt_tokens(turn)
        self._before_tokens = None if prompt is None or tokens is None else prompt + tokens
