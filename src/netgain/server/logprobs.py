"""Log-probabilities as each endpoint's clients expect them."""

import math
from collections.abc import Iterable, Sequence
from typing import Final

from netgain.engine.messages import TokenLogprob
from netgain.server.generation import Prompt, ScoredToken
from netgain.server.responses import (
    ChatLogprobs,
    ChatTokenLogprob,
    ChatTopLogprob,
    CompletionLogprobs,
    PromptLogprob,
)
from netgain.text.token_trace import TokenTrace, spelled
from netgain.text.tokenizer import Tokenizer

_LOWEST: Final = -9999.0
"""What stands for minus infinity, which JSON cannot say; OpenAI's."""


def completion_logprobs(
    tokenizer: Tokenizer, tokens: Sequence[ScoredToken], offset: int
) -> CompletionLogprobs:
    """Of a completion's tokens; the answer's text begins `offset` characters into the choice's."""
    return CompletionLogprobs(
        [spelled(tokenizer, scored.token.id)[0] for scored in tokens],
        [_finite(scored.score.logprob) for scored in tokens],
        [_alternatives(tokenizer, scored.score) for scored in tokens],
        [offset + scored.token.offset for scored in tokens],
    )


def echoed_logprobs(
    tokenizer: Tokenizer, prompt: Prompt, scores: Sequence[TokenLogprob | None]
) -> CompletionLogprobs:
    """Of an echoed prompt's tokens; the first one has none: nothing came before it."""
    trace = TokenTrace(tokenizer, skip_special_tokens=False)
    ids = prompt.ids
    hidden = _is_added_start(tokenizer, prompt)
    for id_ in ids[hidden:]:
        trace.push(id_)
    offsets = [0] * hidden + [token.offset for token in trace.tokens]
    return CompletionLogprobs(
        [spelled(tokenizer, id_)[0] for id_ in ids],
        [None if score is None else _finite(score.logprob) for score in scores],
        [None if score is None else _alternatives(tokenizer, score) for score in scores],
        offsets,
    )


def echoed_text(tokenizer: Tokenizer, prompt: Prompt) -> str:
    """The prompt as the client sent it; of token ids their text, control tokens spelled out."""
    if prompt.text is not None:
        return prompt.text
    return tokenizer.decode(prompt.ids, skip_special_tokens=False)


def chat_logprobs(tokenizer: Tokenizer, tokens: Iterable[ScoredToken]) -> ChatLogprobs:
    """Of a chat answer's tokens: `bytes` joined are the answer's UTF-8."""
    return ChatLogprobs(
        [
            ChatTokenLogprob(
                spelled(tokenizer, scored.token.id)[0],
                _finite(scored.score.logprob),
                list(scored.token.raw),
                [_chat_alternative(tokenizer, id_, value) for id_, value in scored.score.top],
            )
            for scored in tokens
        ]
    )


def prompt_logprobs(
    tokenizer: Tokenizer, scores: Sequence[TokenLogprob | None]
) -> list[dict[str, PromptLogprob] | None]:
    """Of each prompt token and its alternatives, by token id; the first is null."""
    return [None if score is None else _by_id(tokenizer, score) for score in scores]


def _by_id(tokenizer: Tokenizer, score: TokenLogprob) -> dict[str, PromptLogprob]:
    shown = {
        str(id_): PromptLogprob(_finite(value), rank, spelled(tokenizer, id_)[0])
        for rank, (id_, value) in enumerate(score.top, start=1)
    }
    own = PromptLogprob(_finite(score.logprob), score.rank, spelled(tokenizer, score.token_id)[0])
    return shown | {str(score.token_id): own}


def _alternatives(tokenizer: Tokenizer, score: TokenLogprob) -> dict[str, float]:
    """By text, the likeliest first; of two tokens with one text the likelier one is shown."""
    shown: dict[str, float] = {}
    for id_, value in (*score.top, (score.token_id, score.logprob)):
        shown.setdefault(spelled(tokenizer, id_)[0], _finite(value))
    return shown


def _chat_alternative(tokenizer: Tokenizer, id_: int, value: float) -> ChatTopLogprob:
    text, raw = spelled(tokenizer, id_)
    return ChatTopLogprob(text, _finite(value), list(raw))


def _finite(logprob: float) -> float:
    return logprob if math.isfinite(logprob) else _LOWEST


def _is_added_start(tokenizer: Tokenizer, prompt: Prompt) -> bool:
    """Whether the first token was put before the client's text, and is no part of it."""
    if prompt.text is None or not prompt.ids or prompt.ids[0] != tokenizer.bos_id:
        return False
    return not prompt.text.startswith(tokenizer.token(prompt.ids[0]) or "\0")
