"""Log-probabilities of answers and prompts, and embeddings, against the model run by itself.

Dimensions: N rows, V vocabulary.
"""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import gguf
import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from netgain.engine.messages import FinishReason, RequestOutput, TokenLogprob
from netgain.engine.sampling_params import SamplingParams
from netgain.ops.choices import BackendName, Numerics
from tests.backends import backends
from tests.engine.tiny_engine import Answer, TinyEngine, tiny_engine, tiny_model
from tests.paged import PagedDriver, PagedSequence, Work
from tests.tiny_checkpoints import VOCAB

PROMPT: Final = [(7 * n + n * n) % VOCAB for n in range(83)]
ATOL: Final = 2e-4
GREEDY: Final = SamplingParams(temperature=0.0, max_tokens=3, ignore_eos=True)


@pytest.fixture(scope="module", params=backends())
def backend(request: pytest.FixtureRequest) -> BackendName:
    name: BackendName = request.param
    return name


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def engine(model: Path, backend: BackendName) -> Iterator[TinyEngine]:
    """Few rows at a time, so that a prompt takes many groups of them."""
    with tiny_engine(model, backend, seqs=8) as made:
        yield made


def asking(logprobs: int | None, prompt_logprobs: int | None, **fields: object) -> SamplingParams:
    return msgspec.structs.replace(
        GREEDY, logprobs=logprobs, prompt_logprobs=prompt_logprobs, **fields
    )


def log_softmax(engine: TinyEngine, tokens: Sequence[int]) -> NDArray[np.float64]:
    """`[N, V]`: what the model says comes after each of the tokens."""
    driver = PagedDriver(engine.model, block_tokens=4, blocks=60)
    (logits_NV,) = driver.step([Work(PagedSequence(), tokens)])
    shifted = logits_NV.numpy().astype(np.float64)
    shifted -= shifted.max(-1, keepdims=True)
    logprobs: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return logprobs


def assert_right(
    entry: TokenLogprob, logprobs_V: NDArray[np.float64], token: int, top: int
) -> None:
    assert entry.token_id == token
    assert entry.logprob == pytest.approx(logprobs_V[token], abs=ATOL)
    likelier = int((logprobs_V > logprobs_V[token] + ATOL).sum())
    at_least = int((logprobs_V >= logprobs_V[token] - ATOL).sum())
    assert likelier < entry.rank <= at_least
    assert len(entry.top) == top
    best = np.sort(logprobs_V)[::-1][:top]
    assert [logprob for _, logprob in entry.top] == pytest.approx(best.tolist(), abs=ATOL)
    for token_id, logprob in entry.top:
        assert logprob == pytest.approx(logprobs_V[token_id], abs=ATOL)


def assert_prompt_right(
    engine: TinyEngine, answer: Answer, prompt: Sequence[int], top: int
) -> None:
    found = answer.prompt_logprobs
    assert found is not None
    assert len(found) == len(prompt)
    assert found[0] is None
    exact = log_softmax(engine, prompt)
    for place, entry in enumerate(found[1:], 1):
        assert entry is not None
        assert_right(entry, exact[place - 1], prompt[place], top)


@pytest.mark.parametrize("top", [0, 1, 20])
@pytest.mark.parametrize("temperature", [0.0, 1.3])
def test_each_token_has_the_models_own_log_probability(
    engine: TinyEngine, top: int, temperature: float
) -> None:
    """Whatever shaped the draw."""
    sampling = asking(
        top,
        None,
        temperature=temperature,
        seed=3,
        max_tokens=9,
        top_k=40,
        min_p=0.01,
        presence_penalty=1.0,
        logit_bias=((11, 3.0),),
        repetition_penalty=1.2,
    )
    answer = engine.generate(PROMPT[:20], sampling)
    assert answer.prompt_logprobs is None
    assert len(answer.logprobs) == len(answer.token_ids) == 9
    exact = log_softmax(engine, [*PROMPT[:20], *answer.token_ids])
    for index, (token, entry) in enumerate(zip(answer.token_ids, answer.logprobs, strict=True)):
        assert_right(entry, exact[19 + index], token, top)


def test_asking_for_log_probabilities_changes_no_token(engine: TinyEngine) -> None:
    sampling = SamplingParams(seed=8, max_tokens=20, ignore_eos=True)
    plain = engine.generate(PROMPT[:30], sampling)
    asked = engine.generate(
        PROMPT[:30], msgspec.structs.replace(sampling, logprobs=5, prompt_logprobs=2)
    )
    assert asked.token_ids == plain.token_ids
    assert plain.logprobs == []


def test_the_token_that_ends_the_text_has_one_too(engine: TinyEngine) -> None:
    sampling = asking(2, None, logit_bias=((40, 100.0),), stop_token_ids=(40,))
    answer = engine.generate(PROMPT[:9], sampling)
    assert [one.token_id for one in answer.logprobs] == answer.token_ids == [40]


@pytest.mark.parametrize("top", [0, 4])
def test_every_prompt_token_but_the_first_has_one(engine: TinyEngine, top: int) -> None:
    assert_prompt_right(engine, engine.generate(PROMPT, asking(None, top)), PROMPT, top)


@pytest.mark.parametrize("length", [1, 2, 4, 5, 8, 9])
def test_prompts_of_few_tokens_are_complete(engine: TinyEngine, length: int) -> None:
    for _ in range(2):
        answer = engine.generate(PROMPT[:length], asking(1, 1))
        assert_prompt_right(engine, answer, PROMPT[:length], 1)
        assert len(answer.logprobs) == 3


def test_the_second_call_reads_no_cache_and_is_equal(engine: TinyEngine) -> None:
    engine.forget()
    first = engine.generate(PROMPT, asking(None, 3))
    second = engine.generate(PROMPT, asking(None, 3))
    third = engine.generate(PROMPT, GREEDY)
    assert (first.cached_tokens, second.cached_tokens) == (0, 0)
    assert second.prompt_logprobs == first.prompt_logprobs
    assert third.cached_tokens == 80
    assert third.token_ids == second.token_ids == first.token_ids


def numbers(answer: Answer) -> NDArray[np.float64]:
    assert answer.prompt_logprobs is not None
    return np.array([entry.logprob for entry in answer.prompt_logprobs if entry is not None])


def test_chunks_change_nothing(model: Path, backend: BackendName, engine: TinyEngine) -> None:
    whole = engine.generate(PROMPT, asking(2, 2))
    with tiny_engine(model, backend, seqs=8, batched_tokens=16) as chunked:
        neighbour = chunked.request(PROMPT[:5], SamplingParams(max_tokens=40, ignore_eos=True))
        answer = chunked.serve(neighbour, chunked.request(PROMPT, asking(2, 2)))[1]
        assert len(chunked.steps()) > 6
    assert_prompt_right(engine, answer, PROMPT, 2)
    if engine.model.backend.traits.numerics is Numerics.INVARIANT:
        assert answer.prompt_logprobs == whole.prompt_logprobs
        assert answer.logprobs == whole.logprobs
    np.testing.assert_allclose(numbers(answer), numbers(whole), atol=ATOL)


def test_prompts_of_many_requests_are_told_apart(engine: TinyEngine) -> None:
    prompts = [PROMPT[n : n + 12 + n] for n in range(6)]
    requests = [
        engine.request(prompt, asking(n % 3 - 1 if n % 3 else None, n % 4 if n % 2 else None))
        for n, prompt in enumerate(prompts)
    ]
    for n, answer in enumerate(engine.serve(*requests)):
        if n % 2:
            assert_prompt_right(engine, answer, prompts[n], n % 4)
        else:
            assert answer.prompt_logprobs is None
        assert len(answer.logprobs) == (3 if n % 3 else 0)


def test_preemption_loses_none(model: Path, backend: BackendName, engine: TinyEngine) -> None:
    sampling = asking(1, 1, max_tokens=30)
    alone = [engine.generate(PROMPT[n : n + 20], sampling) for n in range(6)]
    with tiny_engine(model, backend, kv_blocks=16, max_model_len=64, seqs=8) as tight:
        requests = [tight.request(PROMPT[n : n + 20], sampling) for n in range(6)]
        answers = tight.serve(*requests)
        assert tight.core.counters().preemptions > 0
    for n, (answer, other) in enumerate(zip(answers, alone, strict=True)):
        assert_prompt_right(engine, answer, PROMPT[n : n + 20], 1)
        assert [one.token_id for one in answer.logprobs] == answer.token_ids == other.token_ids


def test_prompt_log_probabilities_come_with_the_first_of_several_samples(
    engine: TinyEngine,
) -> None:
    engine.forget()
    request = engine.request(PROMPT, asking(0, 0, temperature=1.0, seed=5))
    first, second = engine.serve(*request.samples(2))
    assert_prompt_right(engine, first, PROMPT, 0)
    assert second.prompt_logprobs is None
    assert len(second.logprobs) == 3
    assert (first.cached_tokens, second.cached_tokens) == (0, 80)


def test_a_step_time_model_learns_nothing_from_scored_prompts(engine: TinyEngine) -> None:
    engine.forget()
    before = engine.core.estimator.model
    engine.generate(PROMPT, asking(None, 0, max_tokens=1))
    assert engine.core.estimator.model == before
    engine.forget()
    engine.generate(PROMPT, msgspec.structs.replace(GREEDY, max_tokens=1))


def test_messages_keep_log_probabilities() -> None:
    entry = TokenLogprob(5, -0.25, 1, ((5, -0.25), (9, -2.5)))
    output = RequestOutput(
        "x",  # type: ignore[arg-type]
        (5,),
        logprobs=(entry,),
        prompt_logprobs=(None, entry),
        embedding=(0.5, -0.5),
    )
    packed = msgspec.msgpack.encode(output)
    assert msgspec.msgpack.decode(packed, type=RequestOutput) == output


# Embeddings


def embedding(engine: TinyEngine, tokens: Sequence[int]) -> tuple[float, ...]:
    (answer,) = engine.serve(engine.request(tokens, SamplingParams(), pooling=True))
    assert (answer.token_ids, answer.finish_reason) == ([], FinishReason.STOP)
    assert answer.cached_tokens == 0
    assert answer.embedding is not None
    return answer.embedding


def exact_embedding(engine: TinyEngine, tokens: Sequence[int]) -> NDArray[np.float64]:
    """From the logits: the head's rows span the hidden dimensions, so these follow from them."""
    driver = PagedDriver(engine.model, block_tokens=4, blocks=60)
    (logits_NV,) = driver.step([Work(PagedSequence(), tokens)])
    table_VE = table(engine)
    hidden_EN, *_ = np.linalg.lstsq(table_VE, logits_NV.numpy().astype(np.float64).T, rcond=None)
    mean_E = hidden_EN.mean(1)
    unit: NDArray[np.float64] = mean_E / np.linalg.norm(mean_E)
    return unit


def table(engine: TinyEngine) -> NDArray[np.float64]:
    """The tied embedding, as the quantised file has it: `[V, E]`."""
    reader = gguf.GGUFReader(engine.path)
    (found,) = (tensor for tensor in reader.tensors if tensor.name == "token_embd.weight")
    values: NDArray[np.float64] = gguf.dequantize(found.data, found.tensor_type).astype(np.float64)
    return values


@pytest.mark.parametrize("length", [1, 2, 17, 83])
def test_an_embedding_is_the_mean_hidden_state_at_length_1(engine: TinyEngine, length: int) -> None:
    found = embedding(engine, PROMPT[:length])
    assert math.fsum(value * value for value in found) == pytest.approx(1.0, abs=1e-5)
    np.testing.assert_allclose(found, exact_embedding(engine, PROMPT[:length]), atol=2e-3)


def test_embeddings_do_not_depend_on_chunks_or_company(
    model: Path, backend: BackendName, engine: TinyEngine
) -> None:
    whole = embedding(engine, PROMPT)
    with tiny_engine(model, backend, seqs=8, batched_tokens=16) as chunked:
        requests = [
            chunked.request(PROMPT[:9], SamplingParams(max_tokens=30, ignore_eos=True, logprobs=1)),
            chunked.request(PROMPT[:40], asking(0, 2)),
            chunked.request(PROMPT, SamplingParams(), pooling=True),
            chunked.request(PROMPT[:50], SamplingParams(), pooling=True),
        ]
        talk, scored, first, second = chunked.serve(*requests)
        assert len(chunked.steps()) > 8
        assert chunked.core.counters().kv_blocks_used == 0
    assert first.embedding == pytest.approx(whole, abs=2e-5)
    assert second.embedding == pytest.approx(embedding(engine, PROMPT[:50]), abs=2e-5)
    assert len(talk.token_ids) == len(talk.logprobs) == 30
    assert_prompt_right(engine, scored, PROMPT[:40], 2)


def test_an_embedding_leaves_nothing_in_the_prefix_cache(engine: TinyEngine) -> None:
    engine.forget()
    embedding(engine, PROMPT)
    assert engine.core.counters().kv_blocks_used == 0
    assert engine.generate(PROMPT, GREEDY).cached_tokens == 0


def test_embeddings_survive_preemption_of_their_prompt(
    model: Path, backend: BackendName, engine: TinyEngine
) -> None:
    with tiny_engine(
        model, backend, kv_blocks=16, max_model_len=64, seqs=16, batched_tokens=16
    ) as tight:
        long = SamplingParams(max_tokens=40, ignore_eos=True)
        requests = [tight.request(PROMPT[n : n + 4], long) for n in range(3)]
        requests += [tight.request(PROMPT[:40], SamplingParams(), pooling=True)] * 1
        *_, pooled = tight.serve(*requests)
        assert tight.core.counters().preemptions > 0
    assert pooled.embedding == pytest.approx(embedding(engine, PROMPT[:40]), abs=2e-5)
