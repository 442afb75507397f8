"""A request as the scheduler sees it."""

import enum
from dataclasses import dataclass, field

from netgain.engine.messages import FinishReason, RequestId, TokenLogprob
from netgain.engine.sampling_params import SamplingParams
from netgain.kv.prefix_index import KeyChain
from netgain.ledger.request_ledger import RequestLedger


class RequestStatus(enum.Enum):
    """Where a request is in its life; `FINISHED` is final."""

    WAITING = enum.auto()
    WAITING_FOR_PROMPT = enum.auto()
    """Another sample of the same prompt computes it."""
    WAITING_FOR_KV_LOAD = enum.auto()
    WAITING_FOR_KV_TRANSFER = enum.auto()
    RUNNING = enum.auto()
    PREEMPTED = enum.auto()
    FINISHED = enum.auto()


@dataclass(slots=True, eq=False)
class Request:
    """State of one request, owned by the scheduler.

    Counts of tokens, all from the start of the prompt: `computed` have their KV in the pool,
    `scheduled` will have once the outstanding steps end. `pending_samples` outstanding slices will
    each append one token. `epoch` grows when preemption makes outstanding KV worthless.
    """

    id: RequestId
    tokens: list[int]
    prompt_tokens: int
    sampling: SamplingParams
    seed: int
    limit_tokens: int
    """Tokens at which the request ends by length."""
    stop_ids: frozenset[int]
    chain: KeyChain
    ledger: RequestLedger
    deadline_ns: int | None = None
    banned_ids: tuple[int, ...] = ()
    """Not to be drawn before `sampling.min_tokens`."""
    remote_tokens: int = 0
    """Leading tokens whose KV another replica will send."""
    status: RequestStatus = RequestStatus.WAITING
    computed: int = 0
    scheduled: int = 0
    pending_samples: int = 0
    in_flight: int = 0
    epoch: int = 0
    cached_tokens: int = 0
    recompute_until: int = 0
    """Tokens that had been computed when the request was last preempted."""
    admitted: bool = False
    """Whether it was ever admitted: cache hits count once."""
    known_to_executor: bool = False
    finish_reason: FinishReason | None = None
    new_tokens: list[int] = field(default_factory=list)
    """Sampled, not yet handed to the client."""
    new_logprobs: list[TokenLogprob] = field(default_factory=list)
    """Of the new tokens, if they are wanted."""
    prompt_logprobs: list[TokenLogprob | None] | None = None
    """Per prompt token, as they become known; None if they are not wanted, or handed over."""
    stop_token_id: int | None = None
    error: str | None = None
    waits_for: RequestId | None = None
    """The first sample of the same prompt, if this is a further one."""
    followers: list["Request"] = field(default_factory=list)
    """Further samples that wait for this one's prompt."""
    pooling: bool = False
    """Whether it wants its prompt's embedding, and no tokens."""
    embedding: tuple[float, ...] | None = None

    @property
    def length(self) -> int:
        """Tokens known, or known once the outstanding steps end."""
        return len(self.tokens) + self.pending_samples

    @property
    def to_schedule(self) -> int:
        """Tokens whose KV is neither computed nor under way."""
        return self.length - self.scheduled

    @property
    def is_prefilling(self) -> bool:
        """Whether more than the next token is missing: prompt, or recompute."""
        return self.scheduled < self.prompt_tokens or self.to_schedule > 1

    @property
    def is_decoding(self) -> bool:
        """Whether exactly the newest token's KV is missing, and another token is wanted."""
        length = len(self.tokens) + self.pending_samples
        return self.prompt_tokens <= self.scheduled == length - 1 < self.limit_tokens - 1

    @property
    def needs_every_row(self) -> bool:
        """Whether the prefix cache is of no use: something is wanted of every prompt position."""
        return self.pooling or self.prompt_logprobs is not None

    @property
    def finished(self) -> bool:
        """Whether it ended."""
        return self.status is RequestStatus.FINISHED
