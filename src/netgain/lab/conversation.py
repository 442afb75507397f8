"""What is asked: conversations of one or more turns, made before the load begins."""

import msgspec

NO_FIELDS = msgspec.Raw(b"{}")


class Turn(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request of a conversation.

    `text` is what the user adds: the whole prompt of a completion, the next user message of a chat
    (earlier turns and the answers really received stand before it). `token_ids` replaces it where
    the prompt is exact ids. `prompt_tokens` is what this turn's own text counts with the target's
    tokenizer, template included for chat; None when no tokenizer was at hand. `max_tokens` is the
    length asked of the answer; `exact_length` forbids an earlier end (ignore_eos, min_tokens).
    `think_s` passes between the end of the turn before and this one's intended start.
    """

    text: str = ""
    token_ids: tuple[int, ...] | None = None
    prompt_tokens: int | None = None
    max_tokens: int = 128
    exact_length: bool = False
    think_s: float = 0.0


class Conversation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Turns that follow one another, each after the answer to the one before.

    `request_class` is its class in a mix ("chat", "rag", ...). `start_s`, from the run's beginning,
    where the workload itself says when (a trace); otherwise the load decides. `system` is a system
    message before the first turn. `fields`, a JSON object, go into every request's body.
    """

    request_class: str
    turns: tuple[Turn, ...]
    start_s: float | None = None
    system: str | None = None
    fields: msgspec.Raw = NO_FIELDS
