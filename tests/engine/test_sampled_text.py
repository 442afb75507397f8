"""The same seed gives the same tokens, whatever happens around the request."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import pytest

from netgain.engine.messages import FinishReason
from netgain.engine.sampling_params import SamplingParams
from netgain.ops.choices import BackendName
from tests.backends import backends
from tests.engine.tiny_engine import Answer, TinyEngine, tiny_engine, tiny_model
from tests.ops.sampling_rig import shaped, shaping
from tests.paged import PagedDriver, PagedSequence, Work
from tests.tiny_checkpoints import VOCAB

EOS: Final = 2
PROMPT: Final = [5, 9, 40, 41, 9, 77, 5, 13, 60, 61, 62]
SETTINGS: Final[dict[str, dict[str, object]]] = {
    "plain": {},
    "min_p": {"min_p": 0.05, "temperature": 1.5},
    "penalties": {
        "repetition_penalty": 1.3,
        "presence_penalty": 0.4,
        "frequency_penalty": 0.6,
        "temperature": 1.2,
    },
    "negative penalties": {"presence_penalty": -1.0, "frequency_penalty": -0.3, "top_p": 0.95},
    "bias": {"logit_bias": ((7, 4.0), (8, 4.0), (60, -100.0)), "top_k": 30},
    "min_tokens": {"min_tokens": 20, "stop_token_ids": tuple(range(0, VOCAB, 3))},
    "logprobs": {"logprobs": 3, "repetition_penalty": 1.1},
}


def params(name: str, seed: int = 4, max_tokens: int = 28) -> SamplingParams:
    return SamplingParams(
        seed=seed,
        max_tokens=max_tokens,
        ignore_eos=True,
        **SETTINGS[name],  # type: ignore[arg-type]
    )


@pytest.fixture(scope="module", params=backends())
def backend(request: pytest.FixtureRequest) -> BackendName:
    name: BackendName = request.param
    return name


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def engine(model: Path, backend: BackendName) -> Iterator[TinyEngine]:
    with tiny_engine(model, backend) as made:
        yield made


@pytest.fixture(scope="module")
def alone(engine: TinyEngine) -> dict[str, Answer]:
    answers = {}
    for name in SETTINGS:
        engine.forget()
        answers[name] = engine.generate(PROMPT, params(name))
    return answers


def test_settings_change_the_text(alone: dict[str, Answer]) -> None:
    texts = {tuple(answer.token_ids) for answer in alone.values()}
    assert len(texts) == len(SETTINGS)


def test_all_together_and_beside_unseeded_neighbours_each_text_is_its_own(
    engine: TinyEngine, alone: dict[str, Answer]
) -> None:
    requests = []
    for n, name in enumerate(SETTINGS):
        unseeded = SamplingParams(max_tokens=30, presence_penalty=0.2 * n)
        requests += [engine.request(PROMPT, params(name)), engine.request([3 + n, 4], unseeded)]
    for name, answer in zip(SETTINGS, engine.serve(*requests)[::2], strict=True):
        assert answer.token_ids == alone[name].token_ids


@pytest.mark.parametrize("outstanding", [1, 3])
def test_preemption_changes_no_text(
    model: Path, backend: BackendName, alone: dict[str, Answer], outstanding: int
) -> None:
    with tiny_engine(
        model, backend, kv_blocks=16, max_model_len=64, outstanding=outstanding
    ) as tight:
        requests = [tight.request(PROMPT, params(name)) for name in SETTINGS]
        answers = tight.serve(*requests)
        assert tight.core.counters().preemptions > 3
        assert tight.core.counters().kv_blocks_used == 0
    for name, answer in zip(SETTINGS, answers, strict=True):
        assert answer.token_ids == alone[name].token_ids
        assert answer.finish_reason is alone[name].finish_reason
        assert [one.token_id for one in answer.logprobs] == (
            answer.token_ids if name == "logprobs" else []
        )


def test_seeds_matter_and_nothing_else_does(engine: TinyEngine) -> None:
    one, other = (engine.generate(PROMPT, params("penalties", seed)) for seed in (4, 5))
    assert one.token_ids != other.token_ids
    again = engine.generate(PROMPT, params("penalties", 4))
    assert again.token_ids == one.token_ids
    assert again.cached_tokens > 0


@pytest.mark.parametrize("name", ["plain", "penalties"])
def test_the_first_of_many_samples_is_the_only_one_of_one(
    engine: TinyEngine, alone: dict[str, Answer], name: str
) -> None:
    engine.forget()
    answers = engine.serve(*engine.request(PROMPT, params(name)).samples(4))
    assert answers[0].token_ids == alone[name].token_ids
    assert len({tuple(answer.token_ids) for answer in answers}) == 4
    again = engine.serve(*engine.request(PROMPT, params(name)).samples(4))
    assert [one.token_ids for one in again] == [one.token_ids for one in answers]
    assert [one.cached_tokens for one in answers] == [0, 8, 8, 8]


def test_samples_of_a_salted_request_share_its_blocks(engine: TinyEngine) -> None:
    engine.forget()
    request = engine.request(PROMPT, params("plain"), salt="tenant")
    assert [one.cached_tokens for one in engine.serve(*request.samples(3))] == [0, 8, 8]


def test_with_min_p_of_1_a_hot_draw_is_the_likeliest_token(engine: TinyEngine) -> None:
    hot = SamplingParams(temperature=50.0, min_p=1.0, seed=3, max_tokens=20, ignore_eos=True)
    greedy = SamplingParams(temperature=0.0, max_tokens=20, ignore_eos=True)
    neighbour = engine.request(PROMPT, msgspec.structs.replace(hot, min_p=0.0))
    answer, other = engine.serve(engine.request(PROMPT, hot), neighbour)
    assert answer.token_ids == engine.generate(PROMPT, greedy).token_ids
    assert other.token_ids != answer.token_ids


def test_no_stop_token_comes_before_min_tokens(
    engine: TinyEngine, alone: dict[str, Answer]
) -> None:
    stops = set(params("min_tokens").stop_token_ids)
    answer = alone["min_tokens"]
    assert not stops.intersection(answer.token_ids[:20])
    assert EOS not in answer.token_ids[:20]
    # A third of the vocabulary stops: the text would have ended long before.
    early = engine.generate(PROMPT, msgspec.structs.replace(params("min_tokens"), min_tokens=0))
    assert early.finish_reason is FinishReason.STOP
    assert len(early.token_ids) < 20


def test_an_end_of_sequence_cannot_be_forced_before_min_tokens(engine: TinyEngine) -> None:
    sampling = SamplingParams(
        temperature=0.0, logit_bias=((EOS, 100.0),), max_tokens=20, min_tokens=7
    )
    answer = engine.generate(PROMPT, sampling)
    assert EOS not in answer.token_ids[:7]
    assert answer.token_ids[7:] == [EOS]
    assert answer.finish_reason is FinishReason.STOP
    first = engine.generate(PROMPT, msgspec.structs.replace(sampling, min_tokens=0))
    assert first.token_ids == [EOS]
    ignored = engine.generate(
        PROMPT, msgspec.structs.replace(sampling, min_tokens=0, ignore_eos=True)
    )
    assert ignored.token_ids == [EOS] * 20
    assert ignored.finish_reason is FinishReason.LENGTH


def test_a_stop_token_ends_the_text_also_where_the_end_of_sequence_is_ignored(
    engine: TinyEngine,
) -> None:
    sampling = SamplingParams(
        temperature=0.0,
        logit_bias=((33, 100.0),),
        max_tokens=20,
        stop_token_ids=(33,),
        ignore_eos=True,
    )
    answer = engine.generate(PROMPT, sampling)
    assert (answer.token_ids, answer.finish_reason) == ([33], FinishReason.STOP)


@pytest.mark.parametrize(
    "settings",
    [
        {"repetition_penalty": 1.6},
        {"repetition_penalty": 0.7, "frequency_penalty": 0.5},
        {"presence_penalty": 1.0},
        {"frequency_penalty": 1.5},
        {"presence_penalty": -0.5, "frequency_penalty": 2.0, "logit_bias": ((3, 2.0), (9, -5.0))},
    ],
    ids=str,
)
def test_greedy_text_is_that_of_the_definitions_worked_out_token_by_token(
    engine: TinyEngine, settings: dict[str, object]
) -> None:
    sampling = SamplingParams(
        temperature=0.0,
        max_tokens=30,
        ignore_eos=True,
        **settings,  # type: ignore[arg-type]
    )
    answer = engine.generate(PROMPT, sampling).token_ids
    driver = PagedDriver(engine.model, block_tokens=4, blocks=40)
    (logits_NV,) = driver.step([Work(PagedSequence(), [*PROMPT, *answer[:-1]])])
    for index, token in enumerate(answer):
        counts = Counter(answer[:index])
        repeats = dict.fromkeys(PROMPT, 0) if sampling.repetition_penalty != 1.0 else {}
        how = shaping(
            bias=dict(sampling.logit_bias),
            seen=repeats | dict(counts),
            repetition=sampling.repetition_penalty,
            frequency=sampling.frequency_penalty,
            presence=sampling.presence_penalty,
        )
        logits = shaped(logits_NV[len(PROMPT) - 1 + index].tolist(), how)
        assert logits[token] >= max(logits) - 1e-4
    plain = engine.generate(PROMPT, SamplingParams(temperature=0.0, max_tokens=30, ignore_eos=True))
    assert answer != plain.token_ids


@pytest.mark.parametrize(
    ("outside", "name"),
    [
        (SamplingParams(logit_bias=((VOCAB, 1.0),)), "logit_bias"),
        (SamplingParams(stop_token_ids=(1, VOCAB)), "stop_token_ids"),
        (SamplingParams(stop_token_ids=(VOCAB + 5, 10**9), min_tokens=3), "stop_token_ids"),
    ],
)
def test_a_token_outside_the_vocabulary_is_refused_and_neighbours_live(
    engine: TinyEngine, alone: dict[str, Answer], outside: SamplingParams, name: str
) -> None:
    assert name in engine.refuse(engine.request(PROMPT, outside))
    (answer,) = engine.serve(engine.request(PROMPT, params("plain")))
    assert answer.token_ids == alone["plain"].token_ids


def test_cancelling_the_first_sample_leaves_nothing_behind(engine: TinyEngine) -> None:
    samples = engine.request(PROMPT, params("plain", max_tokens=100)).samples(3)
    engine.begin(*samples)
    engine.abort(samples[0].id)
    assert engine.core.counters().kv_blocks_used == 0
    counters = engine.core.counters()
    assert (counters.running, counters.waiting) == (0, 0)
    engine.settle()
