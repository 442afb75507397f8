"""Compares greedy answers, excusing ties and nothing else."""

from collections.abc import Sequence
from typing import Final

from netgain.ops.choices import Numerics
from tests.backends import LoadedModel
from tests.paged import PagedDriver, PagedSequence, Work

TIE: Final = 1e-3
"""The most two logits may differ by for either token to be right (float32, any GEMM order)."""


def assert_same_but_for_ties(
    model: LoadedModel,
    prompt: Sequence[int],
    expected: Sequence[int],
    actual: Sequence[int],
    ties: list[str],
    name: str,
) -> None:
    """Fails unless `actual` is `expected`, or left it at a tie and was greedy ever after.

    A backend that promises invariance is excused nothing.
    """
    if list(expected) == list(actual):
        return
    assert model.backend.traits.numerics is not Numerics.INVARIANT, f"{name} is another answer"
    driver = PagedDriver(model, block_tokens=16, blocks=len(prompt) // 16 + len(actual) // 16 + 4)
    (logits_NV,) = driver.step([Work(PagedSequence(), [*prompt, *actual[:-1]])])
    rows = logits_NV[len(prompt) - 1 :]
    for place, (token, row_V) in enumerate(zip(actual, rows, strict=True)):
        gap = float(row_V.max() - row_V[token])
        assert gap <= TIE, f"{name}: token {place} is {gap} of logit below the best"
    place = next(i for i, (a, b) in enumerate(zip(expected, actual, strict=False)) if a != b)
    gap = abs(float(rows[place][expected[place]] - rows[place][actual[place]]))
    assert gap <= TIE, f"{name}: left at token {place} where the gap is {gap}"
    ties.append(f"{name}: token {place}, gap {gap:.1e}")
