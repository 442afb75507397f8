"""A whole engine over a tiny random model: token ids in, token ids out."""

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import gguf

from netgain.config import EngineSettings, KVSettings, ModelSettings, SchedulerSettings
from netgain.engine.assembly import build_engine
from netgain.engine.events import EmitOutputs, RequestAborted, RequestArrived
from netgain.engine.messages import EngineRequest, FinishReason, RequestId, TokenLogprob
from netgain.engine.runner import EngineRunner, EventInbox, Journal
from netgain.engine.sampling_params import SamplingParams
from netgain.engine.step import Step
from netgain.ops.choices import BackendName, KVFormat, WeightFormat
from tests.backends import load
from tests.tiny_checkpoints import VOCAB, random_weights, write_gguf


@dataclass
class Answer:
    """Everything that came for one request."""

    token_ids: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    prompt_logprobs: tuple[TokenLogprob | None, ...] | None = None
    embedding: tuple[float, ...] | None = None
    finish_reason: FinishReason | None = None
    cached_tokens: int = 0
    error: str | None = None


class TinyEngine:
    """Serves what it is given to the end. `steps`: all that the executor was handed."""

    def __init__(
        self,
        path: Path,
        backend: BackendName,
        *,
        seqs: int = 16,
        batched_tokens: int = 512,
        block_tokens: int = 4,
        max_model_len: int = 128,
        kv_blocks: int | None = None,
        outstanding: int = 1,
    ) -> None:
        self.path = path
        self._inbox = EventInbox()
        loaded = load(path, backend, WeightFormat.AUTO, KVFormat.AUTO)
        (group,) = loaded.model.config.kv_groups(block_tokens, loaded.backend.traits.kv_dtype)
        blocks = kv_blocks or 400
        settings = EngineSettings(
            model=ModelSettings(
                model=str(path),
                max_model_len=max_model_len,
                backend=backend,
                threads=loaded.backend.traits.threads,
            ),
            scheduler=SchedulerSettings(
                max_num_seqs=seqs,
                max_num_batched_tokens=batched_tokens,
                # Who is scheduled when must not hang on how fast this machine is now.
                step_time_target_s=60.0,
                max_outstanding_steps=outstanding,
            ),
            kv=KVSettings(
                block_tokens=block_tokens, memory_bytes=(blocks + 1) * group.record_bytes
            ),
        )
        self._engine = build_engine(settings, self._inbox.post, lambda _: None)
        self.core = self._engine.core
        self.model = loaded
        self._journal = Journal()
        self._runner = EngineRunner(
            self.core, self._engine.executor, self._engine.clock, self._take, journal=self._journal
        )
        self._answers: dict[RequestId, Answer] = {}
        self._numbers = itertools.count()

    def request(
        self, prompt: Sequence[int], sampling: SamplingParams, **fields: object
    ) -> EngineRequest:
        return EngineRequest(
            id=RequestId(f"t{next(self._numbers)}"),
            prompt_ids=tuple(prompt),
            sampling=sampling,
            **fields,  # type: ignore[arg-type]
        )

    def serve(self, *requests: EngineRequest) -> list[Answer]:
        """Answers all, which arrive together."""
        answers = self.begin(*requests)
        while any(answer.finish_reason is None for answer in answers):
            self._runner.turn(self._inbox.take(60.0))
        assert all(answer.error is None for answer in answers)
        return answers

    def begin(self, *requests: EngineRequest) -> list[Answer]:
        """Hands requests over, which arrive together; answers grow as `serve` and `settle` run."""
        answers = [Answer() for _ in requests]
        for request, answer in zip(requests, answers, strict=True):
            self._answers[request.id] = answer
        self._runner.turn([RequestArrived(request) for request in requests])
        return answers

    def settle(self) -> None:
        """Lets everything end."""
        while not self.core.idle:
            self._runner.turn(self._inbox.take(60.0))

    def generate(self, prompt: Sequence[int], sampling: SamplingParams) -> Answer:
        """Answers one request alone."""
        return self.serve(self.request(prompt, sampling))[0]

    def refuse(self, request: EngineRequest) -> str:
        """The reason why a request is not served."""
        (answer,) = self.begin(request)
        assert answer.finish_reason is FinishReason.ERROR
        assert answer.error is not None
        return answer.error

    def forget(self) -> None:
        """Empties the prefix cache."""
        self.core.reset_prefix_cache()

    def steps(self) -> list[Step]:
        """All steps since the last call."""
        found = [
            action.step
            for _, actions in self._journal.actions
            for action in actions
            if hasattr(action, "step")
        ]
        self._journal.actions.clear()
        return found

    def close(self) -> None:
        self._engine.executor.close()

    def abort(self, request_id: RequestId) -> None:
        self._runner.turn([RequestAborted(request_id)])

    def _take(self, emitted: EmitOutputs) -> None:
        for output in emitted.outputs:
            answer = self._answers[output.id]
            answer.token_ids.extend(output.token_ids)
            answer.logprobs.extend(output.logprobs)
            if output.prompt_logprobs is not None:
                assert answer.prompt_logprobs is None
                answer.prompt_logprobs = output.prompt_logprobs
            answer.embedding = output.embedding
            answer.finish_reason = output.finish_reason
            answer.cached_tokens = output.cached_tokens
            answer.error = output.error


@contextmanager
def tiny_engine(path: Path, backend: BackendName, **settings: int) -> Iterator[TinyEngine]:
    engine = TinyEngine(path, backend, **settings)
    try:
        yield engine
    finally:
        engine.close()


def tiny_model(folder: Path, quantized: bool = True) -> Path:
    """Random weights on disk; quantised, so that the native kernels for that are in it too."""
    kind = gguf.GGMLQuantizationType.Q8_0 if quantized else gguf.GGMLQuantizationType.F32
    tokens = [f"<{token}>" for token in range(VOCAB)]
    return write_gguf(folder / "tiny.gguf", random_weights(3), kind, tokens=tokens)
