"""Chunk size: interference against overhead."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netgain.cost.chunking import (
    ChunkChoice,
    choice_of,
    largest_chunk_tokens,
)
from netgain.cost.known_models import known_shape
from netgain.cost.operations import Stored
from netgain.cost.precision import kv_format, weight_format
from netgain.cost.roofline import RooflineModel
from netgain.cost.step_costs import CalibratedSteps, mixed, prefill_s
from netgain.cost.step_time import StepTimeModel
from netgain.errors import ConfigurationError
from netgain.hardware.catalogue import shipped_catalogue

CALIBRATED = CalibratedSteps(
    StepTimeModel(base_s=5e-3, slice_s=1e-5, token_s=5e-5, context_s=4e-8, pair_s=1e-9)
)


def roofline() -> RooflineModel:
    shape = known_shape("Llama-3.1-8B")
    assert shape is not None
    stored = Stored(weight_format("bf16"), kv_format("bf16"))
    return RooflineModel(shape, shipped_catalogue().device("H100-SXM"), stored)


ROOFLINE = roofline()


def test_a_whole_prompt_in_one_step_has_no_overhead_and_the_most_interference() -> None:
    whole = choice_of(CALIBRATED, 8192, 8192, 16, 2048)
    small = choice_of(CALIBRATED, 8192, 512, 16, 2048)
    assert whole.overhead_s == pytest.approx(0)
    assert whole.reread_tokens == 0
    assert small.overhead_s > 0
    assert small.interference_s < whole.interference_s / 8


def test_small_chunks_read_their_prefix_again() -> None:
    assert choice_of(CALIBRATED, 1024, 256, 4, 100).reread_tokens == 256 + 512 + 768


@given(st.sampled_from([64, 128, 256, 512, 1024]))
def test_halving_a_chunk_never_shortens_the_prompts_own_time(chunk: int) -> None:
    for costs in (CALIBRATED, ROOFLINE):
        half = choice_of(costs, 4096, chunk // 2, 8, 1024)
        full = choice_of(costs, 4096, chunk, 8, 1024)
        assert half.prefill_s >= full.prefill_s
        assert half.mixed_itl_s <= full.mixed_itl_s


def test_with_nobody_decoding_a_chunk_disturbs_nobody_s_tokens() -> None:
    alone = choice_of(CALIBRATED, 1024, 256, 0, 0)
    assert alone.plain_itl_s == 0
    assert alone.prefill_s == pytest.approx(prefill_s(CALIBRATED, 0, 1024, 256))


def test_the_largest_chunk_keeps_even_the_last_step_within_its_bound() -> None:
    chunk = largest_chunk_tokens(CALIBRATED, 8192, 16, 2048, itl_s=0.03)
    assert 0 < chunk < 8192
    assert CALIBRATED.seconds(mixed(16, 2048, 8192 - chunk, chunk)) <= 0.03
    assert CALIBRATED.seconds(mixed(16, 2048, 8192 - chunk - 1, chunk + 1)) > 0.03


def test_no_chunk_fits_a_bound_that_plain_decoding_already_exceeds() -> None:
    assert largest_chunk_tokens(CALIBRATED, 8192, 16, 2048, itl_s=0.001) == 0


def test_a_published_bimodal_itl_is_this_much_interference() -> None:
    """R74: 30 ms alone, 150 ms beside a prefill."""
    choice = ChunkChoice(2048, 1, 0.030, 0.150, 0.15, 0.0, 0)
    assert choice.interference_s == pytest.approx(0.120)


def test_an_empty_prompt_or_chunk_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="prompt_tokens is 0"):
        choice_of(CALIBRATED, 0, 512, 1, 10)
    with pytest.raises(ConfigurationError, match="chunk_tokens is 0"):
        choice_of(CALIBRATED, 10, 0, 1, 10)
