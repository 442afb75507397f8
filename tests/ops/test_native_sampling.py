"""The native backend draws what `ops.draws` defines, on every instruction set.

Dimensions: V vocabulary.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.ops.native_build import INSTRUCTION_SETS, Unit, built_unit

from netgain.ops.draws import uniform

LARGEST_UNIFORM = math.nextafter(1.0, 0.0)
INF, NAN = math.inf, math.nan


@pytest.fixture(scope="module", params=INSTRUCTION_SETS, ids=lambda isa: isa.name)
def unit(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Unit]:
    with built_unit("sampling_unit", request.param, tmp_path_factory.mktemp("native")) as made:
        yield made


@dataclass(frozen=True)
class Rule:
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0


def floats(values: Sequence[float]) -> NDArray[np.float32]:
    return np.array(values, np.float32)


def draw(
    unit: Unit, logits_V: NDArray[np.float32], rule: Rule, numbers: Sequence[float]
) -> list[int]:
    """One token for each of the uniform numbers."""
    guard = 16
    scratch = np.full(len(logits_V) + guard, 77, np.float32)
    tokens = np.full(len(numbers), -1, np.int32)
    unit.call(
        "draw",
        np.ascontiguousarray(logits_V),
        np.array([len(logits_V)], np.int64),
        floats([rule.temperature]),
        np.array([rule.top_k], np.int32),
        floats([rule.top_p]),
        floats([rule.min_p]),
        np.array([len(numbers)], np.int64),
        np.array(numbers, np.float64),
        scratch,
        tokens,
    )
    assert (scratch[-guard:] == 77).all()
    found: list[int] = tokens.tolist()
    return found


def argmax(unit: Unit, logits_NV: NDArray[np.float32]) -> tuple[list[float], list[int]]:
    rows, count = logits_NV.shape
    largest, tokens = np.full(rows, 77, np.float32), np.full(rows, -1, np.int32)
    shape = np.array([rows], np.int64), np.array([count], np.int64)
    unit.call("argmax", np.ascontiguousarray(logits_NV), *shape, largest, tokens)
    return largest.tolist(), tokens.tolist()


@dataclass(frozen=True)
class Exact:
    """What a rule keeps of a row, by sorting it, in double precision."""

    order: NDArray[np.int64]
    shares: NDArray[np.float64]
    """Of the tokens in that order, after `top_k`."""
    likely: NDArray[np.bool_]
    """Which of them reach `min_p`."""

    @staticmethod
    def of(logits_V: NDArray[np.float32], rule: Rule) -> "Exact":
        logits = np.where(np.isnan(logits_V), -np.inf, logits_V).astype(np.float64)
        order = np.lexsort((np.arange(len(logits)), -logits))
        if rule.top_k > 0:
            order = order[: rule.top_k]
        weights = np.exp((logits[order] - logits.max()) / np.float32(rule.temperature))
        least = -math.inf
        if rule.min_p > 0:
            least = float(logits.max()) + float(np.float32(rule.temperature)) * math.log(
                float(np.float32(rule.min_p))
            )
        return Exact(order, weights / weights.sum(), logits[order] >= least)

    def kept(self, top_p: float) -> int:
        """A token stays while what lies before it is short of top_p."""
        if top_p >= 1:
            return len(self.order)
        before = np.cumsum(self.shares) - self.shares
        return max(int((before < top_p).sum()), 1)

    def drawn(self, kept: int, number: float, slack: float) -> set[int]:
        """Tokens that numbers within `slack` of this one fall on."""
        ids = self.order[:kept]
        by_id = np.argsort(ids)
        shares = (self.shares * self.likely)[:kept][by_id]
        ends = np.cumsum(shares) / shares.sum()
        starts = np.concatenate([[0.0], ends[:-1]])
        hit = (starts <= number + slack) & (ends >= number - slack) & (shares > 0)
        return set(ids[by_id][hit].tolist())


def acceptable(logits_V: NDArray[np.float32], rule: Rule, number: float) -> set[int]:
    """The tokens that are right but for rounding in single precision."""
    exact = Exact.of(logits_V, rule)
    rounding = 1e-6
    top_p = float(np.float32(rule.top_p))
    limits = [1.0] if top_p >= 1 else [top_p - rounding, top_p + rounding]
    # What is left may be little of it, and then rounding is more of that.
    share = float((exact.shares * exact.likely).sum())
    slack = 5 * rounding / min(top_p, share)
    return set().union(*(exact.drawn(exact.kept(limit), number, slack) for limit in limits))


def random_logits(count: int, seed: int, spread: float) -> NDArray[np.float32]:
    return (np.random.default_rng(seed).standard_normal(count) * spread).astype(np.float32)


LOGITS = st.one_of(
    st.floats(-30, 30, width=32),
    st.sampled_from([-2.0, -0.5, 0.0, 0.5, 2.0, -INF]),
)
NUMBERS = st.one_of(st.floats(0, 1, exclude_max=True), st.sampled_from([0.0, 0.5, LARGEST_UNIFORM]))
RULES = st.builds(
    Rule,
    temperature=st.sampled_from([0.01, 0.3, 1.0, 1.7, 50.0]),
    top_k=st.one_of(st.just(0), st.integers(1, 90)),
    top_p=st.one_of(st.just(1.0), st.floats(0.05, 1.0), st.sampled_from([0.25, 0.5, 0.75])),
    min_p=st.sampled_from([0.0, 0.0, 1e-6, 0.1, 0.5, 1.0]),
)


@given(
    values=st.lists(LOGITS, min_size=1, max_size=90),
    times=st.integers(1, 9),
    rule=RULES,
    number=NUMBERS,
)
def test_a_draw_is_inverse_sampling_of_the_kept_tokens(
    unit: Unit, values: list[float], times: int, rule: Rule, number: float
) -> None:
    logits_V = np.tile(floats(values), times)  # ties
    if np.isneginf(logits_V).all():
        logits_V[-1] = 0
    (token,) = draw(unit, logits_V, rule, [number])
    assert token in acceptable(logits_V, rule, number)


@pytest.mark.parametrize("spread", [0.0, 0.1, 3.0, 20.0])
@pytest.mark.parametrize(
    "rule",
    [
        Rule(),
        Rule(temperature=0.3),
        Rule(top_k=1),
        Rule(top_k=50),
        Rule(top_k=4000),
        Rule(top_p=0.1),
        Rule(top_p=0.9),
        Rule(temperature=2.0, top_p=0.999),
        Rule(top_k=40, top_p=0.9),
        Rule(top_k=4000, top_p=0.5),
        Rule(min_p=0.1),
        Rule(temperature=2.0, top_k=40, top_p=0.9, min_p=0.3),
    ],
    ids=str,
)
def test_vocabularies_of_any_size_and_shape(unit: Unit, spread: float, rule: Rule) -> None:
    numbers = [0.0, LARGEST_UNIFORM, *(uniform(3, position) for position in range(6))]
    for count in (1, 255, 257, 5000, 49152):
        logits_V = random_logits(count, 8, spread)
        for number, token in zip(numbers, draw(unit, logits_V, rule, numbers), strict=True):
            assert token in acceptable(logits_V, rule, number)


@pytest.mark.parametrize("rule", [Rule(), Rule(top_k=1000), Rule(top_p=0.8)], ids=str)
def test_vocabularies_beyond_a_quarter_million(unit: Unit, rule: Rule) -> None:
    logits_V = random_logits(600_001, 5, 2.0)
    numbers = [0.0, 0.3, 0.9, LARGEST_UNIFORM]
    for number, token in zip(numbers, draw(unit, logits_V, rule, numbers), strict=True):
        assert token in acceptable(logits_V, rule, number)


@pytest.mark.parametrize("distinct", [1, 2, 7])
@pytest.mark.parametrize("top_k", [1, 3, 500, 999, 1000, 1001, 2999])
def test_of_equal_logits_top_k_keeps_the_lower_ids(unit: Unit, distinct: int, top_k: int) -> None:
    logits_V = floats([-(token % distinct) for token in range(3000)])
    last = draw(unit, logits_V, Rule(temperature=1e6, top_k=top_k), [LARGEST_UNIFORM])
    assert last == [max(sorted(range(3000), key=lambda token: -logits_V[token])[:top_k])]


def test_of_equal_logits_top_p_keeps_the_lower_ids(unit: Unit) -> None:
    zeros = np.zeros(1024, np.float32)
    assert draw(unit, zeros, Rule(top_p=0.5), [LARGEST_UNIFORM]) == [511]
    assert draw(unit, zeros, Rule(top_p=0.25), [0.0, LARGEST_UNIFORM]) == [0, 255]
    assert draw(unit, zeros, Rule(top_k=512, top_p=0.5), [LARGEST_UNIFORM]) == [255]
    signed = np.where(np.arange(1024) % 2 == 0, -0.0, 0.0).astype(np.float32)
    assert draw(unit, signed, Rule(top_p=0.5), [LARGEST_UNIFORM]) == [511]


def test_top_p_keeps_the_token_that_reaches_it_and_none_after(unit: Unit) -> None:
    logits_V = np.log(floats([0.5, 0.25, 0.125, 0.125]))
    numbers = [0.0, 0.4, LARGEST_UNIFORM]
    assert draw(unit, logits_V, Rule(top_p=0.5), numbers) == [0, 0, 0]
    assert draw(unit, logits_V, Rule(top_p=0.51), numbers) == [0, 0, 1]
    assert draw(unit, logits_V, Rule(top_p=1e-9), numbers) == [0, 0, 0]
    assert draw(unit, logits_V, Rule(top_p=0.8), numbers) == [0, 0, 2]


@pytest.mark.parametrize(
    "rule",
    [
        Rule(),
        Rule(temperature=0.5),
        Rule(temperature=3.0),
        Rule(top_k=3),
        Rule(top_p=0.7),
        Rule(top_p=0.3),
        Rule(temperature=1.5, top_k=6, top_p=0.8),
        Rule(top_k=10**6, top_p=0.999),
        Rule(min_p=0.2),
        Rule(temperature=1.5, top_k=8, top_p=0.95, min_p=0.25),
    ],
    ids=str,
)
@pytest.mark.parametrize("seed", [0, 12345])
def test_draws_follow_the_exact_distribution(unit: Unit, rule: Rule, seed: int) -> None:
    draws = 6000
    logits_V = floats([2.0, -1.0, 0.5, 1.9, 0.0, -3.0, 1.0, 0.4, -0.2, 2.2])
    exact = Exact.of(logits_V, rule)
    kept = exact.kept(rule.top_p)
    expected = np.zeros(len(logits_V))
    shares = (exact.shares * exact.likely)[:kept]
    expected[exact.order[:kept]] = draws * shares / shares.sum()
    numbers = [uniform(seed, position) for position in range(draws)]
    counts = np.bincount(draw(unit, logits_V, rule, numbers), minlength=len(logits_V))
    possible = expected > 0
    assert not counts[~possible].any()
    chi_square = ((counts - expected)[possible] ** 2 / expected[possible]).sum()
    freedom = int(possible.sum()) - 1
    # Wilson and Hilferty's approximation of the 99.99 % point.
    limit = freedom * (1 - 2 / (9 * freedom) + 3.72 * math.sqrt(2 / (9 * freedom))) ** 3
    assert chi_square < limit


@pytest.mark.parametrize("rule", [Rule(), Rule(top_k=40), Rule(top_p=0.99)], ids=str)
@pytest.mark.parametrize("nothing", [-INF, NAN])
def test_tokens_of_probability_zero_are_never_drawn(unit: Unit, rule: Rule, nothing: float) -> None:
    logits_V = np.full(300, nothing, np.float32)
    logits_V[[17, 254]] = [1.0, 0.5]
    numbers = [0.0, *(uniform(9, position) for position in range(200)), LARGEST_UNIFORM]
    drawn = draw(unit, logits_V, rule, numbers)
    assert set(drawn) == {17, 254}
    assert (drawn[0], drawn[-1]) == (17, 254)


@pytest.mark.parametrize("temperature", [1e-45, 1.1e-5, 1.0, 100.0])
@pytest.mark.parametrize("top_k", [0, 3])
@pytest.mark.parametrize("top_p", [1.0, 0.9])
def test_extreme_logits_give_the_only_likely_token(
    unit: Unit, temperature: float, top_k: int, top_p: float
) -> None:
    logits_V = floats([-INF, -1e30, 0.0, 1e30, -INF, 1e29, -3e38])
    rule = Rule(temperature, top_k, top_p)
    assert set(draw(unit, logits_V, rule, [0.0, 0.5, LARGEST_UNIFORM])) == {3}


@pytest.mark.parametrize("rule", [Rule(), Rule(top_k=3), Rule(top_p=0.9)], ids=str)
def test_a_row_without_a_finite_largest_logit_still_gives_a_token(unit: Unit, rule: Rule) -> None:
    assert draw(unit, floats([0.0, NAN, INF, 1.0, INF]), rule, [0.5]) == [2]
    assert draw(unit, floats([NAN, -INF, -INF]), rule, [0.5]) == [1]
    assert draw(unit, floats([NAN, NAN, NAN]), rule, [0.5]) == [0]


def test_an_infinite_temperature_draws_any_possible_token(unit: Unit) -> None:
    logits_V = floats([1.0, -INF, 50.0, NAN])
    assert draw(unit, logits_V, Rule(temperature=INF), [0.0, 0.49, 0.51]) == [0, 0, 2]


@pytest.mark.parametrize("rule", [Rule(temperature=1e-6), Rule(top_k=1)], ids=str)
def test_low_temperatures_and_top_1_draw_the_largest_logit(unit: Unit, rule: Rule) -> None:
    for seed in range(20):
        logits_V = random_logits(997, seed, 1.0)
        assert draw(unit, logits_V, rule, [uniform(5, seed)]) == [int(logits_V.argmax())]


@given(
    values=st.lists(
        st.one_of(st.floats(width=32), st.sampled_from([0.0, 1.0, -INF])), min_size=1, max_size=60
    ),
    times=st.integers(1, 40),
)
@example(values=[NAN, -INF], times=1)
@example(values=[NAN], times=20)
@example(values=[-0.0, 0.0], times=1)
def test_argmax_is_the_first_of_the_largest_that_is_a_number(
    unit: Unit, values: list[float], times: int
) -> None:
    logits_V = np.tile(floats(values), times)
    (largest,), (token,) = argmax(unit, logits_V[None])
    if np.isnan(logits_V).all():
        assert (largest, token) == (-INF, 0)
    else:
        assert largest == np.nanmax(logits_V)
        assert token == np.flatnonzero(logits_V == largest)[0]


@pytest.mark.parametrize("count", [1, 15, 16, 17, 1023, 1024, 1025, 4103])
def test_argmax_finds_the_largest_wherever_it_is(unit: Unit, count: int) -> None:
    places = sorted({0, count // 3, count // 2, count - 2, count - 1} - {-1})
    logits_NV = np.stack([random_logits(count, 3, 1.0)] * len(places))
    logits_NV[range(len(places)), places] = 9.0
    assert argmax(unit, logits_NV) == ([9.0] * len(places), places)


@dataclass(frozen=True)
class Score:
    logprob: float
    rank: int
    top_ids: list[int]
    top_logprobs: list[float]


def score(
    unit: Unit, logits_V: NDArray[np.float32], tokens: Sequence[int], tops: int
) -> list[Score]:
    guard, count = 16, len(tokens)
    scratch = np.full(len(logits_V) + guard, 77, np.float32)
    logprobs, ranks = np.full(count, 77, np.float32), np.full(count, -9, np.int32)
    top_ids = np.full((count, max(tops, 1)), -9, np.int32)
    top_logprobs = np.full((count, max(tops, 1)), 77, np.float32)
    sizes = np.array([len(logits_V)], np.int64), np.array([count], np.int64)
    unit.call(
        "score",
        np.ascontiguousarray(logits_V),
        sizes[0],
        np.array(tokens, np.int32),
        sizes[1],
        np.array([tops], np.int32),
        scratch,
        logprobs,
        ranks,
        top_ids,
        top_logprobs,
    )
    assert (scratch[-guard:] == 77).all()
    return [
        Score(*row)
        for row in zip(
            logprobs.tolist(), ranks.tolist(), top_ids.tolist(), top_logprobs.tolist(), strict=True
        )
    ]


def exact_logprobs(logits_V: NDArray[np.float32]) -> NDArray[np.float64]:
    logits = np.where(np.isnan(logits_V), -np.inf, logits_V).astype(np.float64)
    shifted = logits - logits.max()
    logprobs: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum())
    return logprobs


@given(
    values=st.lists(LOGITS, min_size=1, max_size=90),
    times=st.integers(1, 9),
    tops=st.integers(0, 20),
)
@example(values=[0.5], times=9, tops=3)
def test_scores_are_the_sorted_log_softmax(
    unit: Unit, values: list[float], times: int, tops: int
) -> None:
    logits_V = np.tile(floats(values), times)  # ties
    if np.isneginf(logits_V).all():
        logits_V[-1] = 0
    exact = exact_logprobs(logits_V)
    order = np.lexsort((np.arange(len(exact)), -logits_V.astype(np.float64)))
    tokens = sorted({0, len(exact) // 2, len(exact) - 1})
    for token, found in zip(tokens, score(unit, logits_V, tokens, tops), strict=True):
        assert found.logprob == pytest.approx(exact[token], abs=2e-6)
        assert found.rank == order.tolist().index(token) + 1
        if tops:
            best = order[:tops]
            assert found.top_ids == [*best.tolist(), *[-1] * (tops - len(best))]
            assert found.top_logprobs[: len(best)] == pytest.approx(exact[best].tolist(), abs=2e-6)


@pytest.mark.parametrize("spread", [0.0, 0.1, 5.0])
@pytest.mark.parametrize("count", [255, 257, 49152, 128256])
def test_scores_of_large_vocabularies(unit: Unit, count: int, spread: float) -> None:
    logits_V = random_logits(count, 11, spread)
    exact = exact_logprobs(logits_V)
    order = np.lexsort((np.arange(count), -logits_V.astype(np.float64)))
    tokens = [0, int(order[0]), int(order[19]), int(order[-1]), count - 1]
    for token, found in zip(tokens, score(unit, logits_V, tokens, 20), strict=True):
        assert found.logprob == pytest.approx(exact[token], abs=4e-6)
        assert order[found.rank - 1] == token
        assert found.top_ids == order[:20].tolist()
        assert found.top_logprobs == pytest.approx(exact[order[:20]].tolist(), abs=4e-6)


def test_not_a_number_is_less_likely_than_any_number(unit: Unit) -> None:
    logits_V = floats([NAN, 1.0, NAN, 0.0])
    certain, nothing = score(unit, logits_V, [1, 2], 3)
    assert certain.logprob == pytest.approx(math.log(1 / (1 + math.exp(-1))), abs=1e-6)
    assert (certain.rank, certain.top_ids[:2]) == (1, [1, 3])
    assert nothing.logprob == -INF


def test_an_infinite_logit_counts_as_certain(unit: Unit) -> None:
    first, second, other = score(unit, floats([0.0, INF, INF]), [1, 2, 0], 2)
    assert (first.logprob, second.logprob, other.logprob) == (0.0, 0.0, -INF)
    assert (first.rank, second.rank, other.rank) == (1, 2, 3)
    assert first.top_ids == [1, 2]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_min_p_keeps_the_token_on_the_bound_and_none_below(unit: Unit, temperature: float) -> None:
    bound = temperature * math.log(0.25)
    logits_V = floats([0.0, bound, bound])
    logits_V[1] = np.nextafter(np.float32(bound), np.float32(0))
    logits_V[2] = np.nextafter(np.float32(bound), np.float32(-9))
    rule = Rule(temperature, min_p=0.25)
    assert draw(unit, logits_V, rule, [0.0, LARGEST_UNIFORM]) == [0, 1]
    assert draw(unit, floats([1.0, 1.0, 0.9]), Rule(min_p=1.0), [0.0, LARGEST_UNIFORM]) == [0, 1]


@pytest.mark.parametrize("seed", [0, 1, 12345, 2**63, 2**64 - 1])
def test_the_uniform_numbers_are_numpys(unit: Unit, seed: int) -> None:
    positions = np.array([*range(200), 2**31, 2**40 + 3, 2**63 - 1], np.int64)
    seeds = np.full(len(positions), seed, np.uint64)
    numbers = np.full(len(positions), -1.0)
    unit.call("uniform", seeds, positions, np.array([len(positions)], np.int64), numbers)
    assert numbers.tolist() == [uniform(seed, position) for position in positions.tolist()]
