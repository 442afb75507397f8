"""The step-time model's formulas against brute force, and the fit against known models."""

import random

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from netgain.cost.step_time import StepLoad, StepTimeEstimator, StepTimeModel, causal_pairs

CPU_LIKE = StepTimeModel(base_s=0.02, slice_s=0.0005, token_s=0.004, context_s=2e-6, pair_s=1e-7)


def coefficients(high: float) -> st.SearchStrategy[float]:
    return st.just(0.0) | st.floats(high * 1e-20, high, allow_subnormal=False)


models = st.builds(
    StepTimeModel,
    coefficients(0.1),
    coefficients(0.01),
    coefficients(0.01),
    coefficients(1e-4),
    coefficients(1e-5),
)
slices = st.lists(st.tuples(st.integers(0, 4000), st.integers(1, 300)), max_size=6)


@given(start=st.integers(0, 40), count=st.integers(0, 40))
def test_causal_pairs_count_every_key_that_a_query_sees(start: int, count: int) -> None:
    seen = sum(1 for query in range(start, start + count) for key in range(query + 1))
    assert causal_pairs(start, count) == seen


@given(parts=slices)
def test_a_load_is_the_sum_of_its_slices(parts: list[tuple[int, int]]) -> None:
    load = StepLoad.of(parts)
    assert load.slices == len(parts)
    assert load.tokens == sum(count for _, count in parts)
    assert load.context_tokens == sum(start + count for start, count in parts)
    assert load.pairs == sum(causal_pairs(start, count) for start, count in parts)


@given(model=models, parts=slices)
def test_a_step_takes_its_base_and_what_each_slice_adds(
    model: StepTimeModel, parts: list[tuple[int, int]]
) -> None:
    assume(parts)
    own = sum(model.slice_own_s(start, count) for start, count in parts)
    assert model.step_s(StepLoad.of(parts)) == pytest.approx(model.base_s + own, rel=1e-9)


def test_an_empty_step_takes_no_time() -> None:
    assert CPU_LIKE.step_s(StepLoad()) == 0.0


@given(
    model=models,
    parts=slices,
    start=st.integers(0, 4000),
    target_s=st.floats(1e-6, 60),
)
# A tiny quadratic term must not cancel the whole answer away.
@example(StepTimeModel(0.01, 0.0, 1e-3, 0.0, 1e-22), [], 0, 0.2)
def test_the_largest_chunk_is_the_most_tokens_within_the_target(
    model: StepTimeModel, parts: list[tuple[int, int]], start: int, target_s: float
) -> None:
    load = StepLoad.of(parts)
    largest = model.largest_chunk(load, start, target_s)
    slack = 1e-9 * target_s
    assert largest >= 0
    if largest:
        assert model.step_s(load.plus(start, largest)) <= target_s + slack
    if largest < 1 << 30:
        assert model.step_s(load.plus(start, largest + 1)) > target_s - slack


@given(target_s=st.floats(0.02, 3), start=st.integers(0, 3000))
def test_the_largest_chunk_agrees_with_trying_every_length(target_s: float, start: int) -> None:
    fitting = [
        count
        for count in range(1, 1000)
        if CPU_LIKE.step_s(StepLoad().plus(start, count)) <= target_s
    ]
    assert CPU_LIKE.largest_chunk(StepLoad(), start, target_s) == max(fitting, default=0)


def test_a_model_that_knows_nothing_limits_no_chunk() -> None:
    assert StepTimeEstimator().model.largest_chunk(StepLoad(), 0, 0.2) == 1 << 30


@pytest.mark.parametrize("chunk", [1, 7, 64, 1000])
@pytest.mark.parametrize(("start", "count"), [(0, 1), (0, 100), (33, 100), (500, 64)])
def test_a_prefill_takes_the_sum_of_its_chunk_steps(start: int, count: int, chunk: int) -> None:
    seconds = 0.0
    for begin in range(start, start + count, chunk):
        size = min(chunk, start + count - begin)
        seconds += CPU_LIKE.step_s(StepLoad.of([(begin, size)]))
    assert CPU_LIKE.prefill_s(start, count, chunk) == pytest.approx(seconds)


def test_nothing_to_prefill_takes_no_time() -> None:
    assert CPU_LIKE.prefill_s(10, 0, 64) == 0.0


def some_load(rng: random.Random) -> StepLoad:
    decodes = [(rng.randrange(1500), 1) for _ in range(rng.randrange(9))]
    chunks = [(rng.randrange(1000), rng.randrange(1, 128)) for _ in range(rng.randrange(2))]
    return StepLoad.of([*decodes, *chunks] or [(rng.randrange(1500), 1)])


def observed(
    rng: random.Random, model: StepTimeModel, steps: int, noise: float
) -> list[tuple[StepLoad, float]]:
    loads = [some_load(rng) for _ in range(steps)]
    return [(load, model.step_s(load) * rng.uniform(1 - noise, 1 + noise)) for load in loads]


def worst_error(estimated: StepTimeModel, true: StepTimeModel, seed: int = 99) -> float:
    rng = random.Random(seed)
    loads = [some_load(rng) for _ in range(200)]
    return max(abs(estimated.step_s(load) / true.step_s(load) - 1) for load in loads)


@pytest.mark.parametrize("seed", range(5))
def test_the_fit_predicts_a_known_model_from_noisy_steps(seed: int) -> None:
    estimator = StepTimeEstimator(observed(random.Random(seed), CPU_LIKE, 400, noise=0.1))
    assert worst_error(estimator.model, CPU_LIKE) < 0.05


def test_the_fit_recovers_the_coefficients_when_nothing_is_noise() -> None:
    estimator = StepTimeEstimator(observed(random.Random(1), CPU_LIKE, 400, noise=0.0))
    fitted = estimator.model
    assert fitted.base_s == pytest.approx(CPU_LIKE.base_s, rel=0.1)
    assert fitted.token_s == pytest.approx(CPU_LIKE.token_s, rel=0.05)


def test_observing_step_by_step_predicts_as_well_as_a_fit_at_once() -> None:
    estimator = StepTimeEstimator()
    for load, seconds in observed(random.Random(3), CPU_LIKE, 400, noise=0.1):
        estimator.observe(load, seconds)
    assert worst_error(estimator.model, CPU_LIKE) < 0.1


@given(
    steps=st.lists(
        st.tuples(
            st.lists(st.tuples(st.integers(0, 2000), st.integers(1, 200)), min_size=1, max_size=5),
            st.floats(1e-4, 10),
        ),
        max_size=40,
    )
)
def test_no_coefficient_is_ever_negative_or_undefined(
    steps: list[tuple[list[tuple[int, int]], float]],
) -> None:
    estimator = StepTimeEstimator()
    for parts, seconds in steps:
        estimator.observe(StepLoad.of(parts), seconds)
        model = estimator.model
        for value in (model.base_s, model.slice_s, model.token_s, model.context_s, model.pair_s):
            assert 0.0 <= value < float("inf")


WARM_UP = [(1, 31, 1), (1, 0, 16), (4, 31, 1), (1, 0, 64), (1, 511, 1), (8, 255, 1), (1, 448, 64)]


def warm_up(model: StepTimeModel, slow: int | None, factor: float) -> StepTimeEstimator:
    steps = [StepLoad.of([(before, count)] * n) for n, before, count in WARM_UP]
    seconds = [model.step_s(load) for load in steps]
    if slow is not None:
        seconds[slow] *= factor
    return StepTimeEstimator(zip(steps, seconds, strict=True))


@pytest.mark.parametrize("slow", range(len(WARM_UP)))
def test_one_warm_up_step_fifty_times_too_slow_is_forgotten_in_32_steps(slow: int) -> None:
    estimator = warm_up(CPU_LIKE, slow, 50.0)
    for load, seconds in observed(random.Random(slow), CPU_LIKE, 32, noise=0.05):
        estimator.observe(load, seconds)
    assert worst_error(estimator.model, CPU_LIKE) < 0.5


def test_a_warm_up_that_was_fifty_times_too_slow_throughout_is_forgotten_in_32_steps() -> None:
    slow = StepTimeModel(1.0, 0.025, 0.2, 1e-4, 5e-6)
    estimator = warm_up(slow, None, 1.0)
    for load, seconds in observed(random.Random(5), CPU_LIKE, 32, noise=0.05):
        estimator.observe(load, seconds)
    assert worst_error(estimator.model, CPU_LIKE) < 0.5


@pytest.mark.parametrize(("stretched", "at_once"), [(1, 0.06), (5, 0.25)])
def test_a_few_stretched_steps_move_the_model_little_and_are_soon_forgotten(
    stretched: int, at_once: float
) -> None:
    estimator = warm_up(CPU_LIKE, None, 1.0)
    steps = observed(random.Random(6), CPU_LIKE, 63, noise=0.05)
    steps += observed(random.Random(7), CPU_LIKE, 32 - stretched, noise=0.05)
    # The stretched ones are the last before the model is fitted again.
    steps += [(StepLoad.of([(100, 1)]), 30.0)] * stretched
    for load, seconds in steps:
        estimator.observe(load, seconds)
    assert worst_error(estimator.model, CPU_LIKE) < at_once
    for load, seconds in observed(random.Random(8), CPU_LIKE, 40, noise=0.05):
        estimator.observe(load, seconds)
    assert worst_error(estimator.model, CPU_LIKE) < 0.03


def test_a_machine_that_became_ten_times_slower_is_followed_within_its_memory() -> None:
    slower = StepTimeModel(0.2, 0.005, 0.04, 2e-5, 1e-6)
    estimator = StepTimeEstimator(memory_steps=512)
    for load, seconds in observed(random.Random(8), CPU_LIKE, 600, noise=0.05):
        estimator.observe(load, seconds)
    for load, seconds in observed(random.Random(9), slower, 512, noise=0.05):
        estimator.observe(load, seconds)
    assert worst_error(estimator.model, slower) < 0.1


def test_a_machine_that_became_twice_as_slow_is_followed() -> None:
    slower = StepTimeModel(0.04, 0.001, 0.008, 4e-6, 2e-7)
    estimator = StepTimeEstimator(memory_steps=64)
    for load, seconds in observed(random.Random(8), CPU_LIKE, 200, noise=0.05):
        estimator.observe(load, seconds)
    for load, seconds in observed(random.Random(9), slower, 400, noise=0.05):
        estimator.observe(load, seconds)
    assert worst_error(estimator.model, slower) < 0.1


def test_a_step_without_slices_or_time_teaches_nothing() -> None:
    estimator = warm_up(CPU_LIKE, None, 1.0)
    before = estimator.model
    estimator.observe(StepLoad(), 1.0)
    estimator.observe(StepLoad.of([(0, 8)]), 0.0)
    assert estimator.model == before


def test_the_same_observations_give_the_same_model() -> None:
    steps = observed(random.Random(11), CPU_LIKE, 100, noise=0.2)
    fitted = []
    for _ in range(2):
        estimator = StepTimeEstimator(steps[:10])
        for load, seconds in steps[10:]:
            estimator.observe(load, seconds)
        fitted.append(estimator.model)
    assert fitted[0] == fitted[1]
