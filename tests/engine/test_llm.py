"""The whole engine in one process, with the default model's real weights."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from netgain import LLM, SamplingParams
from netgain.engine.events import PublishKVEvents
from netgain.engine.messages import FinishReason
from netgain.engine.runner import Journal
from netgain.engine.step import Step
from netgain.errors import CapacityError, ConfigurationError, InvalidRequestError, NetgainError
from netgain.kv.events import BlockStored
from netgain.ledger.stages import LedgerStage
from netgain.ops.choices import BackendName, KVFormat, WeightFormat
from tests.backends import LoadedModel, backends, load, usual
from tests.greedy import TIE, assert_same_but_for_ties
from tests.paged import PagedDriver, PagedSequence, Work

pytestmark = pytest.mark.model

GREEDY = SamplingParams(temperature=0.0, max_tokens=24)
PROMPTS = [
    "The capital of France is",
    "def fibonacci(n):\n",
    "Once upon a time, in a land far away,",
    "1, 2, 3, 4,",
    "The three primary colours are",
    "In the beginning",
    "Dear Sir or Madam,",
    "The quick brown fox",
    "Water boils at",
    "import numpy as np\n",
    "Q: What is the largest planet?\nA:",
    "La vie est",
    "SELECT name FROM users WHERE",
    "Roses are red,",
    "The mitochondria is",
    "It was the best of times, " * 12,
]


@pytest.fixture(scope="module")
def llm(default_gguf: Path) -> Iterator[LLM]:
    with LLM(str(default_gguf), max_model_len=512, kv_memory="256MiB") as loaded:
        yield loaded


@pytest.fixture(scope="module")
def model(default_gguf: Path) -> LoadedModel:
    """As the engine has it, where nothing else is asked for."""
    return load(default_gguf, usual(), WeightFormat.AUTO, KVFormat.AUTO)


@pytest.fixture(scope="module")
def solo(llm: LLM) -> list[tuple[int, ...]]:
    """Each prompt's greedy tokens, generated alone and without the prefix cache's help."""
    answers = []
    for prompt in PROMPTS:
        llm.reset_prefix_cache()
        answers.append(llm.generate(prompt, GREEDY)[0].token_ids)
    return answers


def test_sixteen_concurrent_greedy_requests_each_equal_their_solo_run(
    llm: LLM, model: LoadedModel, solo: list[tuple[int, ...]], ties: list[str]
) -> None:
    llm.reset_prefix_cache()
    together = llm.generate(PROMPTS, GREEDY)
    for index, (answer, alone) in enumerate(zip(together, solo, strict=True)):
        assert_same_but_for_ties(
            model,
            answer.prompt_token_ids,
            alone,
            answer.token_ids,
            ties,
            f"16 together, prompt {index}",
        )


def test_sixteen_requests_in_a_pool_for_two_equal_their_solo_runs_despite_preemption(
    default_gguf: Path, model: LoadedModel, solo: list[tuple[int, ...]], ties: list[str]
) -> None:
    blocks_for_two = 2 * (128 // 4)
    (group,) = model.model.config.kv_groups(4, model.backend.traits.kv_dtype)
    with LLM(
        str(default_gguf),
        max_model_len=128,
        block_tokens=4,
        # Who is admitted when must not hang on how fast this machine is now.
        step_time_target_s=60.0,
        kv_memory=(blocks_for_two + 1) * group.record_bytes,
        max_num_seqs=16,
    ) as tight:
        answers = tight.generate(PROMPTS, GREEDY)
        counters = tight.counters()
    assert counters.preemptions > 0
    assert counters.kv_blocks_total == blocks_for_two
    assert counters.kv_blocks_used == 0
    for index, (answer, alone) in enumerate(zip(answers, solo, strict=True)):
        assert_same_but_for_ties(
            model,
            answer.prompt_token_ids,
            alone,
            answer.token_ids,
            ties,
            f"pool for two, prompt {index}",
        )
    stages = {stage.stage for answer in answers for stage in answer.ledger.stages}
    assert LedgerStage.PREEMPTED in stages


def test_the_engines_greedy_tokens_are_those_of_the_model_alone(
    model: LoadedModel, llm: LLM, solo: list[tuple[int, ...]]
) -> None:
    """The tests' own driver makes the arrays; no scheduler, no executor, no cache."""
    for prompt, answer in zip(PROMPTS, solo, strict=True):
        ids = llm.tokenizer.encode(prompt)
        driver = PagedDriver(model, block_tokens=16, blocks=20)
        (logits_NV,) = driver.step([Work(PagedSequence(), [*ids, *answer[:-1]])])
        rows_NV = logits_NV[len(ids) - 1 :]
        chosen_N = rows_NV.gather(1, torch.tensor(answer).unsqueeze(1)).squeeze(1)
        assert float((rows_NV.max(1).values - chosen_N).max()) <= TIE


@pytest.mark.parametrize("outstanding", [1, 3])
def test_the_number_of_outstanding_steps_changes_no_answer(
    default_gguf: Path,
    model: LoadedModel,
    solo: list[tuple[int, ...]],
    ties: list[str],
    outstanding: int,
) -> None:
    with LLM(
        str(default_gguf),
        max_model_len=256,
        kv_memory="64MiB",
        max_outstanding_steps=outstanding,
    ) as other:
        answers = other.generate(PROMPTS[:4], GREEDY)
    for index, (answer, alone) in enumerate(zip(answers, solo, strict=False)):
        assert_same_but_for_ties(
            model,
            answer.prompt_token_ids,
            alone,
            answer.token_ids,
            ties,
            f"{outstanding} outstanding, prompt {index}",
        )


def test_a_seed_gives_the_same_text_alone_and_beside_unseeded_neighbours(llm: LLM) -> None:
    seeded = SamplingParams(temperature=0.9, top_p=0.95, top_k=50, seed=17, max_tokens=16)
    unseeded = SamplingParams(temperature=1.0, max_tokens=16)
    alone = llm.generate(PROMPTS[2], seeded)[0]
    beside = llm.generate([PROMPTS[0], PROMPTS[2], PROMPTS[1]], [unseeded, seeded, unseeded])[1]
    assert beside.token_ids == alone.token_ids
    other = SamplingParams(temperature=0.9, top_p=0.95, top_k=50, seed=18, max_tokens=16)
    assert llm.generate(PROMPTS[2], other)[0].token_ids != alone.token_ids


def test_a_repeated_prompt_is_served_from_the_prefix_cache_with_the_same_answer(
    llm: LLM, model: LoadedModel, ties: list[str]
) -> None:
    llm.reset_prefix_cache()
    prompt = llm.tokenizer.encode(PROMPTS[15])[:65]
    cold = llm.generate(prompt, GREEDY)[0]
    warm = llm.generate(prompt, GREEDY)[0]
    assert (cold.cached_tokens, warm.cached_tokens) == (0, 64)
    assert_same_but_for_ties(model, prompt, cold.token_ids, warm.token_ids, ties, "warm prefix")
    gain = warm.ledger.net_gain["prefix_cache"]  # type: ignore[index]
    assert gain.saved_s > gain.cost_s > 0


def test_a_stop_string_ends_the_text_before_it(llm: LLM) -> None:
    plain = llm.generate("1, 2, 3, 4,", GREEDY)[0]
    assert " 8" in plain.text
    params = SamplingParams(temperature=0.0, max_tokens=24, stop=(" 8",))
    stopped = llm.generate("1, 2, 3, 4,", params)[0]
    assert stopped.text == plain.text[: plain.text.index(" 8")]
    assert stopped.finish_reason is FinishReason.STOP
    assert len(stopped.token_ids) < len(plain.token_ids)


def test_a_stop_token_ends_the_answer_and_stays_out_of_the_text(llm: LLM) -> None:
    plain = llm.generate("1, 2, 3, 4,", GREEDY)[0]
    token = plain.token_ids[3]
    first = plain.token_ids.index(token)
    params = SamplingParams(temperature=0.0, max_tokens=24, stop_token_ids=(token,))
    stopped = llm.generate("1, 2, 3, 4,", params)[0]
    assert stopped.token_ids == plain.token_ids[: first + 1]
    assert stopped.text == llm.tokenizer.decode(plain.token_ids[:first])
    assert stopped.finish_reason is FinishReason.STOP


def test_an_answer_ends_at_the_end_of_sequence_token(llm: LLM) -> None:
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    answer = llm.chat(messages, SamplingParams(temperature=0.0, max_tokens=64))
    assert answer.finish_reason is FinishReason.STOP
    assert answer.text == "The capital of France is Paris."
    more = llm.chat(messages, SamplingParams(temperature=0.0, max_tokens=16, ignore_eos=True))
    assert len(more.token_ids) == 16
    assert more.finish_reason is FinishReason.LENGTH


def test_streamed_deltas_join_to_the_text(llm: LLM) -> None:
    deltas = list(llm.stream(PROMPTS[1], GREEDY))
    last = deltas[-1].completion
    assert last is not None
    assert "".join(delta.text for delta in deltas) == last.text
    assert len(deltas) > 4


def test_closing_a_stream_cancels_the_request_and_frees_its_blocks(llm: LLM) -> None:
    before = llm.counters().kv_blocks_used
    stream = llm.stream(PROMPTS[2], SamplingParams(temperature=0.0, max_tokens=400))
    next(stream)
    assert llm.counters().running == 1
    stream.close()
    counters = llm.counters()
    assert (counters.running, counters.waiting) == (0, 0)
    assert counters.kv_blocks_used == before


def test_a_ledger_closes_and_costs_add_up_to_engine_time(llm: LLM) -> None:
    before = llm.counters().busy_s, llm.counters().unbilled_s
    answers = llm.generate(PROMPTS[:6], GREEDY)
    counters = llm.counters()
    for answer in answers:
        ledger = answer.ledger
        assert abs(ledger.other_s) < 1e-6
        for left, right in zip(ledger.stages, ledger.stages[1:], strict=False):
            assert left.end_s == right.start_s
        assert ledger.ttft_s is not None
        assert 0 < ledger.ttft_s < ledger.e2e_s
    billed = sum(answer.ledger.cost_s for answer in answers)
    busy = counters.busy_s - before[0] - (counters.unbilled_s - before[1])
    assert billed == pytest.approx(busy, rel=1e-6)


@pytest.mark.parametrize(
    ("prompt", "complaint"),
    [("", "empty"), ([], "empty"), ([1] * 512, "at most 511"), ([49152], "not in the vocabulary")],
)
def test_a_prompt_that_cannot_be_served_is_refused_before_anything_runs(
    llm: LLM, prompt: str | list[int], complaint: str
) -> None:
    steps = llm.counters().steps
    with pytest.raises(InvalidRequestError, match=complaint):
        llm.generate([PROMPTS[0], prompt], GREEDY)
    assert llm.counters().steps == steps


def test_a_pool_too_small_is_refused_with_the_shortfall_and_advice_that_works(
    default_gguf: Path, model: LoadedModel
) -> None:
    with pytest.raises(CapacityError) as refused:
        LLM(str(default_gguf), max_model_len=4096, kv_memory="16MiB")
    (group,) = model.model.config.kv_groups(16, model.backend.traits.kv_dtype)
    needed = (4096 // 16 + 1) * group.record_bytes
    assert refused.value.shortfall_bytes == needed - (16 << 20)
    assert str(needed) in str(refused.value)
    longest = ((16 << 20) // group.record_bytes - 1) * 16
    assert f"--max-model-len {longest}" in str(refused.value)
    with LLM(str(default_gguf), max_model_len=longest, kv_memory="16MiB") as llm:
        assert llm.info.max_model_len == longest


def test_the_engine_says_what_auto_became(llm: LLM, model: LoadedModel) -> None:
    info, traits = llm.info, model.backend.traits
    assert (info.backend, info.weights, info.kv_dtype, info.numerics, info.isa) == (
        traits.name,
        traits.weights,
        traits.kv_dtype,
        traits.numerics,
        traits.isa,
    )
    if usual() is BackendName.NATIVE:
        assert (info.weights, info.kv_dtype, info.numerics) == ("as-stored", "fp16", "invariant")
        assert info.weight_bytes < info.parameters
    else:
        assert (info.weights, info.kv_dtype, info.numerics) == ("fp32", "fp32", "fast")
        assert info.weight_bytes == 4 * info.parameters


@pytest.mark.parametrize("backend", [str(name) for name in backends()])
def test_fast_numerics_say_how_far_logits_moved(default_gguf: Path, backend: str) -> None:
    with LLM(
        str(default_gguf), max_model_len=64, kv_memory="64MiB", backend=backend, numerics="fast"
    ) as fast:
        moved = fast.info.divergence
    assert moved is not None
    if backend == "native":
        assert moved == 0.0  # the same kernels as invariant
    else:
        assert 0.0 < moved < 1e-2


def test_invariant_numerics_have_nothing_to_say(llm: LLM) -> None:
    assert (llm.info.divergence is None) == (llm.info.numerics == "invariant")


def test_a_context_beyond_the_models_is_refused(default_gguf: Path) -> None:
    with pytest.raises(ConfigurationError, match="8192"):
        LLM(str(default_gguf), max_model_len=8193)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"threads": 0}, "threads: "),
        ({"kv_memory": "plenty"}, "512MiB"),
        ({"max_num_seqs": 64, "max_num_batched_tokens": 32}, "raise the first or lower the second"),
    ],
)
def test_a_setting_that_cannot_work_is_a_configuration_error(
    settings: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        LLM("never looked for", **settings)


def test_the_journal_holds_everything_that_happened(default_gguf: Path) -> None:
    journal = Journal()
    with LLM(str(default_gguf), max_model_len=128, kv_memory="32MiB", journal=journal) as recorded:
        prompt = recorded.tokenizer.encode(PROMPTS[15])[:40]
        recorded.generate([prompt], SamplingParams(temperature=0.0, max_tokens=3))
    assert len(journal.events) == len(journal.actions) >= 4
    published = [
        event
        for _, actions in journal.actions
        for action in actions
        if isinstance(action, PublishKVEvents)
        for event in action.events
    ]
    first, second = published
    assert isinstance(first, BlockStored)
    assert isinstance(second, BlockStored)
    assert (first.parent_hash, second.parent_hash) == (None, first.block_hash)


def test_a_failed_step_is_told_to_every_stream_that_was_in_it(
    llm: LLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no memory left")

    params = SamplingParams(temperature=0.0, max_tokens=40, ignore_eos=True)
    streams = [llm.stream(prompt, params) for prompt in PROMPTS[:2]]
    for stream in streams:
        next(stream)
    monkeypatch.setattr(llm._engine.executor._runner, "run", fail)
    for stream in streams:
        with pytest.raises(NetgainError, match="no memory left"):
            list(stream)
    monkeypatch.undo()
    assert llm.generate("Once", SamplingParams(max_tokens=1))[0].token_ids


def test_a_stream_that_the_collector_ends_during_a_turn_is_cancelled_by_the_next(
    llm: LLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    params = SamplingParams(temperature=0.0, max_tokens=40, ignore_eos=True)
    forgotten = llm.stream(PROMPTS[0], params)
    next(forgotten)
    schedule = llm._engine.core._scheduler.schedule

    def collect_then_schedule() -> Step | None:
        forgotten.close()
        return schedule()

    monkeypatch.setattr(llm._engine.core._scheduler, "schedule", collect_then_schedule)
    llm.generate(PROMPTS[1], SamplingParams(temperature=0.0, max_tokens=3))
    monkeypatch.undo()
    assert (llm.counters().running, llm.counters().kv_blocks_used) == (0, 0)


def test_a_stream_of_a_closed_engine_says_so(default_gguf: Path) -> None:
    with LLM(str(default_gguf), max_model_len=64, kv_memory="64MiB") as short:
        stream = short.stream("Once", SamplingParams(max_tokens=40, ignore_eos=True))
        next(stream)
    with pytest.raises(NetgainError, match="closed"):
        list(stream)


@pytest.mark.parametrize("prompts", [None, 5, b"abc", [[1.5]], [[True]], [["a"]], [1, "a"], [None]])
def test_what_is_no_prompt_is_refused(llm: LLM, prompts: object) -> None:
    with pytest.raises(InvalidRequestError, match="prompts must be"):
        llm.generate(prompts)  # type: ignore[arg-type]


def test_each_prompt_is_answered_n_times_over_blocks_computed_once(llm: LLM) -> None:
    llm.reset_prefix_cache()
    params = SamplingParams(seed=5, max_tokens=12, temperature=1.0, ignore_eos=True)
    alone = [llm.generate(prompt, params)[0] for prompt in (PROMPTS[-1], PROMPTS[0])]
    llm.reset_prefix_cache()
    answers = llm.generate([PROMPTS[-1], PROMPTS[0]], params, n=3)
    prompts = [answer.prompt_token_ids for answer in answers]
    assert prompts == [alone[0].prompt_token_ids] * 3 + [alone[1].prompt_token_ids] * 3
    assert (answers[0].token_ids, answers[3].token_ids) == (alone[0].token_ids, alone[1].token_ids)
    assert len({answer.token_ids for answer in answers}) == 6
    shared = (len(prompts[0]) - 1) // 16 * 16
    assert [answer.cached_tokens for answer in answers[:3]] == [0, shared, shared]


def test_a_completion_carries_the_log_probabilities_that_were_asked_for(llm: LLM) -> None:
    params = SamplingParams(temperature=0.0, max_tokens=6, logprobs=2, prompt_logprobs=1)
    (answer,) = llm.generate(PROMPTS[0], params)
    assert [one.token_id for one in answer.logprobs] == list(answer.token_ids)
    # Greedy: each is the likeliest, so the first alternative is the token itself.
    for entry in answer.logprobs:
        assert entry.rank == 1
        assert entry.top[0] == (entry.token_id, entry.logprob)
        assert entry.top[1][1] <= entry.logprob <= 0
    assert answer.prompt_logprobs is not None
    first, *others = answer.prompt_logprobs
    assert first is None
    assert tuple(entry.token_id for entry in others if entry) == answer.prompt_token_ids[1:]
    (plain,) = llm.generate(PROMPTS[0], SamplingParams(temperature=0.0, max_tokens=6))
    assert (plain.token_ids, plain.logprobs, plain.prompt_logprobs) == (answer.token_ids, (), None)


def test_a_stop_string_before_min_tokens_ends_nothing(llm: LLM) -> None:
    (whole,) = llm.generate(PROMPTS[3], SamplingParams(temperature=0.0, max_tokens=16))
    stop = whole.text[0]
    (early,) = llm.generate(
        PROMPTS[3], SamplingParams(temperature=0.0, max_tokens=16, stop=(stop,))
    )
    assert early.text == ""
    (late,) = llm.generate(
        PROMPTS[3], SamplingParams(temperature=0.0, max_tokens=16, min_tokens=16, stop=(stop,))
    )
    assert late.text.startswith(stop)
    assert len(late.token_ids) == 16


def test_a_biased_token_must_be_in_the_vocabulary(llm: LLM) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        llm.generate("Hello", SamplingParams(logit_bias=((llm.info.vocab_size, 1.0),)))
    assert refused.value.param == "logit_bias"


def test_texts_of_one_meaning_are_embedded_closer_than_others(llm: LLM) -> None:
    texts = [
        "The cat sat on the mat and slept.",
        "A cat was sleeping on a mat.",
        "def fibonacci(n):\n    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)",
    ]
    one, same, other = (
        torch.tensor(found.vector, dtype=torch.float64) for found in llm.embed(texts)
    )
    assert float(one @ one) == pytest.approx(1.0, abs=1e-5)
    assert float(one @ same) > float(one @ other) + 0.05
    (alone,) = llm.embed(texts[0])
    assert alone.vector == pytest.approx(one.tolist(), abs=1e-5)
    assert alone.ledger is not None
