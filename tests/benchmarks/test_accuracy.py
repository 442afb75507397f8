"""Scores of predictions whose quality is known."""

import math

import numpy as np
import pytest
from benchmarks.accuracy import Score, combinations, score
from numpy.typing import NDArray

from netgain.kv.geometry import KVDType
from netgain.ops.choices import WeightFormat
from netgain.ops.step_inputs import StepInputs

VOCABULARY = 50
WINDOWS = tuple(np.random.default_rng(0).integers(0, VOCABULARY, (3, 40), dtype=np.int32))


def knows_nothing(inputs: StepInputs) -> NDArray[np.float32]:
    return np.full((len(inputs.logit_rows_N), VOCABULARY), 7.0, np.float32)


def sees_ahead(inputs: StepInputs) -> NDArray[np.float32]:
    """Gives the next token nine times the weight of all others together."""
    logits = np.zeros((len(inputs.logit_rows_N), VOCABULARY), np.float32)
    following = np.append(inputs.token_ids_T[1:], 0)
    logits[np.arange(len(logits)), following] = math.log(9 * (VOCABULARY - 1))
    return logits


def test_whoever_knows_nothing_is_as_perplexed_as_there_are_tokens() -> None:
    assert score(knows_nothing, 1, WINDOWS).perplexity == pytest.approx(VOCABULARY)


def test_whoever_is_right_nine_times_in_ten_is_hardly_perplexed() -> None:
    assert score(sees_ahead, 1, WINDOWS).perplexity == pytest.approx(1 / 0.9, rel=1e-5)


def test_windows_begin_without_context_and_want_the_logits_of_every_token() -> None:
    seen: list[StepInputs] = []

    def note(inputs: StepInputs) -> NDArray[np.float32]:
        seen.append(inputs)
        return knows_nothing(inputs)

    score(note, 2, WINDOWS)
    assert [step.positions_T[0] for step in seen] == [0, 0, 0]
    assert all(len(step.logit_rows_N) == 40 and len(step.groups) == 2 for step in seen)
    # Block 0 is scratch.
    assert seen[0].groups[0].block_tables_RM.tolist() == [[1, 2, 3]]


def test_scores_are_compared_with_the_reference() -> None:
    reference = Score(1.0, np.array([1, 2, 3, 4]))
    other = Score(1.1, np.array([1, 2, 3, 5]))
    assert other.agreement(reference) == 0.75
    assert other.perplexity_ratio(reference) == pytest.approx(math.exp(0.1))


def test_the_reference_is_measured_first_and_every_format_once() -> None:
    weights, kinds = list(WeightFormat)[1:], list(KVDType)
    listed = [(one, kv) for one, kept in combinations(weights, kinds) for kv in kept]
    assert listed[0] == (WeightFormat.FP32, KVDType.FP32)
    assert len(listed) == len(set(listed))
    assert {one for one, _ in listed} == set(weights)
    assert {kv for one, kv in listed if one is WeightFormat.AS_STORED} == set(kinds)
