"""Non-streamed answers, from what was generated."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from netgain.server.generation import Generation, ScoredToken
from netgain.server.logprobs import (
    chat_logprobs,
    completion_logprobs,
    echoed_logprobs,
    echoed_text,
    prompt_logprobs,
)
from netgain.server.protocol import ChatRequest, CompletionRequest
from netgain.server.responses import (
    AssistantMessage,
    ChatChoice,
    ChatCompletion,
    Completion,
    CompletionChoice,
    CompletionLogprobs,
    LedgerPart,
    PromptLogprob,
    usage_of,
)
from netgain.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Answered:
    """One choice's whole text, and its tokens where they are scored."""

    generation: Generation
    text: str
    tokens: tuple[ScoredToken, ...]


@dataclass(frozen=True, slots=True)
class AnswerHead:
    """What an answer says about itself."""

    id: str
    created: int
    model: str


def completion(
    tokenizer: Tokenizer,
    body: CompletionRequest,
    head: AnswerHead,
    answers: Sequence[Answered],
    netgain: LedgerPart | None,
) -> bytes:
    """The body of `/v1/completions`' answer."""
    choices = []
    for index, answer in enumerate(answers):
        prefix = echoed_text(tokenizer, answer.generation.prompt) if body.echo else ""
        choices.append(
            CompletionChoice(
                index,
                prefix + answer.text,
                answer.generation.finish_reason,
                _completion_logprobs(tokenizer, body, answer, len(prefix)),
                _of_prompt(tokenizer, body.prompt_logprobs, answer),
            )
        )
    usage = usage_of(answer.generation for answer in answers)
    return msgspec.json.encode(
        Completion(head.id, head.created, head.model, choices, usage, "text_completion", netgain)
    )


def chat_completion(
    tokenizer: Tokenizer,
    body: ChatRequest,
    head: AnswerHead,
    answers: Sequence[Answered],
    netgain: LedgerPart | None,
) -> bytes:
    """The body of `/v1/chat/completions`' answer."""
    choices = [
        ChatChoice(
            index,
            AssistantMessage(answer.text),
            answer.generation.finish_reason,
            chat_logprobs(tokenizer, answer.tokens) if body.logprobs else None,
            _of_prompt(tokenizer, body.prompt_logprobs, answer),
        )
        for index, answer in enumerate(answers)
    ]
    usage = usage_of(answer.generation for answer in answers)
    return msgspec.json.encode(
        ChatCompletion(
            head.id, head.created, head.model, choices, usage, "chat.completion", netgain
        )
    )


def _completion_logprobs(
    tokenizer: Tokenizer, body: CompletionRequest, answer: Answered, offset: int
) -> CompletionLogprobs | None:
    if body.logprobs is None:
        return None
    own = completion_logprobs(tokenizer, answer.tokens, offset)
    scores = answer.generation.known_prompt_scores
    if not body.echo or scores is None:
        return own
    prompt = echoed_logprobs(tokenizer, answer.generation.prompt, scores)
    return CompletionLogprobs(
        prompt.tokens + own.tokens,
        prompt.token_logprobs + own.token_logprobs,
        prompt.top_logprobs + own.top_logprobs,
        prompt.text_offset + own.text_offset,
    )


def _of_prompt(
    tokenizer: Tokenizer, asked: int | None, answer: Answered
) -> list[dict[str, PromptLogprob] | None] | msgspec.UnsetType:
    scores = answer.generation.known_prompt_scores
    if asked is None or scores is None:
        return msgspec.UNSET
    return prompt_logprobs(tokenizer, scores)
