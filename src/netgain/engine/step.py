"""One step: what the scheduler asks of an executor, and what comes back.

A step carries deltas only: an executor keeps each request's tokens, sampling settings and block
tables from the step that introduced it until the step that lets it go. Steps run in the order they
were submitted; several may be outstanding. A slice whose last input token is not sampled yet (it
comes from a step still outstanding) needs no placeholder in the message: the executor knows it by
then.
"""

from dataclasses import dataclass
from typing import NewType

from netgain.engine.messages import RequestId, TokenLogprob
from netgain.engine.sampling_params import SamplingParams
from netgain.kv.block_pool import BlockId

StepId = NewType("StepId", int)
Tables = tuple[tuple[BlockId, ...], ...]
"""Blocks per KV group."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Positions `[start, start + count)` of one request; `sample` when a token is to be chosen."""

    request_id: RequestId
    start: int
    count: int
    sample: bool


@dataclass(frozen=True, slots=True)
class NewRequest:
    """A request the executor does not know yet (or let go of when it was preempted).

    `tokens` are the prompt and, after preemption, what was generated so far; `prompt_tokens` says
    where the prompt ends. `seed` is never None here. `banned_ids` are not to be drawn before
    `sampling.min_tokens`. With `score_prompt`, slices bring prompt log-probabilities; with
    `pooling` they bring the prompt's embedding in the end, and no tokens.
    """

    request_id: RequestId
    tokens: tuple[int, ...]
    prompt_tokens: int
    sampling: SamplingParams
    seed: int
    tables: Tables
    banned_ids: tuple[int, ...] = ()
    score_prompt: bool = False
    pooling: bool = False


@dataclass(frozen=True, slots=True)
class TableGrowth:
    """Blocks appended to a known request's tables."""

    request_id: RequestId
    blocks: Tables


@dataclass(frozen=True, slots=True)
class Step:
    """One forward pass over ragged slices."""

    id: StepId
    slices: tuple[Slice, ...]
    new: tuple[NewRequest, ...] = ()
    grown: tuple[TableGrowth, ...] = ()
    released: tuple[RequestId, ...] = ()
    """Requests whose state the executor drops before this step runs."""

    @property
    def tokens(self) -> int:
        """Tokens of all slices."""
        return sum(piece.count for piece in self.slices)


@dataclass(frozen=True, slots=True)
class PromptLogprobs:
    """Log-probabilities of a request's prompt tokens from position `first` on."""

    request_id: RequestId
    first: int
    entries: tuple[TokenLogprob, ...]


@dataclass(frozen=True, slots=True)
class PromptEmbedding:
    """A pooling request's answer, with its last slice."""

    request_id: RequestId
    vector: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class StepResult:
    """The sampled tokens, in the order of the step's sampling slices, and when the device worked.

    `logprobs`: one per sampled token, None where none is wanted; empty where none is at all.
    `error` ends the requests of the step instead.
    """

    step_id: StepId
    tokens: tuple[int, ...]
    started_ns: int
    ended_ns: int
    error: str | None = None
    logprobs: tuple[TokenLogprob | None, ...] = ()
    prompt_logprobs: tuple[PromptLogprobs, ...] = ()
    embeddings: tuple[PromptEmbedding, ...] = ()
