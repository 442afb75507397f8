"""What crosses between a frontend and an engine: msgspec structs over ZeroMQ, no pickle.

Frontend to engine: `Submit`, `Abort`, `ClockPing`, `ResetPrefixCache`, `Shutdown`.
Engine to frontend: `LoadProgress` while starting, then `Ready` or `StartFailed`, then one
`StepOutputs` per step, `ClockPong`, `PrefixCacheReset`.
All times are the sender's monotonic nanoseconds.
"""

import enum
from typing import NewType, TypeAlias

import msgspec

from netgain.engine.sampling_params import MAX_SAMPLES, SamplingParams
from netgain.errors import InvalidRequestError
from netgain.ledger.counters import EngineCounters
from netgain.ledger.record import LedgerRecord

RequestId = NewType("RequestId", str)


class FinishReason(enum.StrEnum):
    """Why a request ended."""

    STOP = "stop"
    """End of sequence, a stop token, or (set by whoever reads the text) a stop string."""
    LENGTH = "length"
    """`max_tokens` or the context length."""
    ABORT = "abort"
    """The client went away, or asked."""
    TIMEOUT = "timeout"
    """The deadline passed."""
    ERROR = "error"
    """The engine could not go on with it; `RequestOutput.error` says why."""


class EngineRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One validated request as the engine takes it.

    `salt` isolates the prefix cache: blocks are shared only between equal salts.
    `timeout_ns` counts from arrival at the engine. `sample_index` and `waits_for` are for one of
    several samples of a prompt, see `samples`. With `pooling` nothing is generated: the answer is
    the prompt's embedding, and `sampling` does not matter.
    """

    id: RequestId
    prompt_ids: tuple[int, ...]
    sampling: SamplingParams
    salt: str = ""
    timeout_ns: int | None = None
    sample_index: int = 0
    waits_for: RequestId | None = None
    pooling: bool = False

    def samples(self, n: int) -> tuple["EngineRequest", ...]:
        """`n` samples of this request's prompt, to be submitted in this order; the first is itself.

        The others begin once the first one's prompt is computed, or once it has ended, and then
        find the prompt's full blocks in the prefix index; each has a seed of its own that follows
        from the first one's (`sample_seed`). They carry no prompt log-probabilities, which would
        be the first one's. Their ids are the first one's with `-1`, `-2`, ... behind it.

        Cancelling the first (`FinishReason.ABORT`) cancels all, any other only itself.

        Raises `InvalidRequestError` unless `n` is between 1 and `MAX_SAMPLES`.
        """
        if not 1 <= n <= MAX_SAMPLES:
            raise InvalidRequestError(f"n must be between 1 and {MAX_SAMPLES}", "n")
        others = self
        if self.sampling.prompt_logprobs is not None:
            sampling = msgspec.structs.replace(self.sampling, prompt_logprobs=None)
            others = msgspec.structs.replace(self, sampling=sampling)
        return self, *(
            msgspec.structs.replace(
                others,
                id=RequestId(f"{self.id}-{index}"),
                sample_index=index,
                waits_for=self.id,
            )
            for index in range(1, n)
        )


class TokenLogprob(msgspec.Struct, frozen=True, array_like=True):
    """How likely a token was under the model, and what was likelier.

    `logprob`: log-softmax of the model's raw logits over the whole vocabulary: before bias,
    penalties, temperature and whatever else shapes the draw. `rank` counts from 1; of equally
    likely tokens the lower id comes first. `top`: (token id, log-probability) of the likeliest, as
    many as were asked for, in order; the token itself is only there if it is one of them.
    """

    token_id: int
    logprob: float
    rank: int
    top: tuple[tuple[int, float], ...] = ()


class RequestOutput(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one step brought one request.

    `cached_tokens` (prompt tokens served by the prefix cache) and `ledger` come with the last one.
    `logprobs`: one per token id if they were asked for. `prompt_logprobs`: one per prompt token,
    with the first output that has a token; None for the first one, before which there is nothing.
    `embedding`: the answer to a pooling request, whose finish reason is `STOP`: the mean over the
    prompt's positions of the hidden state behind the final norm, divided by its length (L2), in
    float32.
    """

    id: RequestId
    token_ids: tuple[int, ...] = ()
    finish_reason: FinishReason | None = None
    stop_token_id: int | None = None
    cached_tokens: int = 0
    ledger: LedgerRecord | None = None
    error: str | None = None
    logprobs: tuple[TokenLogprob, ...] = ()
    prompt_logprobs: tuple[TokenLogprob | None, ...] | None = None
    embedding: tuple[float, ...] | None = None


class Submit(msgspec.Struct, frozen=True, tag="submit"):
    """Serve this request."""

    request: EngineRequest
    sent_ns: int


class Abort(msgspec.Struct, frozen=True, tag="abort"):
    """Stop these requests; unknown ids are ignored. The last output of each still comes.

    `reason` is `STOP` when the reader of the text found a stop string.
    """

    ids: tuple[RequestId, ...]
    reason: FinishReason = FinishReason.ABORT


class ClockPing(msgspec.Struct, frozen=True, tag="ping"):
    """Asks for the engine's clock; `sent_ns` comes back."""

    sent_ns: int


class ResetPrefixCache(msgspec.Struct, frozen=True, tag="reset_prefix_cache"):
    """Forget every cached block that no running request holds."""


class Shutdown(msgspec.Struct, frozen=True, tag="shutdown"):
    """End the process."""


ToEngine: TypeAlias = Submit | Abort | ClockPing | ResetPrefixCache | Shutdown


class LoadPart(msgspec.Struct, frozen=True):
    """One timed part of loading: import, backend, open, read, convert, allocate, warm up."""

    name: str
    seconds: float


class LoadProgress(msgspec.Struct, frozen=True, tag="load_progress"):
    """A part of loading ended."""

    part: LoadPart


class EngineInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a started engine is.

    `parameters` counts the model's weights, `weight_bytes` what they take in memory. `backend`,
    `weights`, `kv_dtype` and `numerics` say what `auto` became; `isa` names the instruction set.
    `divergence`: with fast numerics, how far logits moved with company, measured at start.
    `step_base_s`, `step_token_s`: the calibrated time of an empty step and of one more token.
    """

    model_name: str
    max_model_len: int
    vocab_size: int
    kv_blocks: int
    kv_block_tokens: int
    kv_bytes: int
    parameters: int
    weight_bytes: int
    backend: str
    isa: str
    threads: int
    weights: str
    kv_dtype: str
    numerics: str
    step_base_s: float
    step_token_s: float
    load: tuple[LoadPart, ...]
    divergence: float | None = None


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The engine serves from now on."""

    info: EngineInfo


class StartFailed(msgspec.Struct, frozen=True, tag="start_failed"):
    """The engine cannot start; the process ends. `message` says what to do."""

    message: str


class StepOutputs(msgspec.Struct, frozen=True, tag="step_outputs"):
    """Everything one turn of the core loop has to say.

    `sent_ns`: when this message was sent.
    """

    outputs: tuple[RequestOutput, ...]
    counters: EngineCounters
    sent_ns: int


class ClockPong(msgspec.Struct, frozen=True, tag="pong"):
    """Answers a ping: the ping's `sent_ns`, and the engine's clock when it read and answered."""

    ping_ns: int
    received_ns: int
    sent_ns: int


class PrefixCacheReset(msgspec.Struct, frozen=True, tag="prefix_cache_reset"):
    """The prefix cache was emptied; `blocks` were forgotten."""

    blocks: int


FromEngine: TypeAlias = (
    LoadProgress | Ready | StartFailed | StepOutputs | ClockPong | PrefixCacheReset
)
