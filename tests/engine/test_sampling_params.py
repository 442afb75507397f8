"""What a request may ask of the sampler, and what it is told when it asks for more."""

import math

import msgspec
import pytest

from netgain.engine.sampling_params import (
    MAX_LOGIT_BIAS,
    MAX_LOGPROBS,
    MAX_STOP_BYTES,
    MAX_STOP_STRINGS,
    MAX_STOP_TOKEN_IDS,
    SamplingParams,
    sample_seed,
)
from netgain.errors import InvalidRequestError

REFUSED: list[tuple[str, object]] = [
    *[("temperature", value) for value in (math.nan, math.inf, -math.inf, -0.1, 100.5)],
    *[("top_p", value) for value in (math.nan, math.inf, 0.0, -0.5, 1.0001)],
    ("top_k", -2),
    ("top_k", 2**63),
    ("stop_token_ids", (-1,)),
    ("stop_token_ids", (2**64,)),
    ("max_tokens", 0),
    ("max_tokens", -1),
    ("seed", 2**63),
    ("seed", -(2**63) - 1),
    ("stop", ("",)),
    ("stop", ("fine", "")),
    ("stop", ("x",) * (MAX_STOP_STRINGS + 1)),
    ("stop", ("x" * (MAX_STOP_BYTES + 1),)),
    # The bound counts bytes, not characters.
    ("stop", ("é" * (MAX_STOP_BYTES // 2 + 1),)),
    ("stop_token_ids", (1,) * (MAX_STOP_TOKEN_IDS + 1)),
    *[("min_p", value) for value in (math.nan, math.inf, -0.1, 1.1)],
    *[("repetition_penalty", v) for v in (math.nan, math.inf, -math.inf, 0.0, -1.0, 100.5, 1e300)],
    *[("presence_penalty", value) for value in (math.nan, math.inf, -math.inf, -2.1, 2.1)],
    *[("frequency_penalty", value) for value in (math.nan, math.inf, -math.inf, -2.1, 2.1)],
    *[("logit_bias", ((3, v),)) for v in (math.nan, math.inf, -math.inf, -100.5, 100.5, 1e300)],
    ("logit_bias", ((-1, 1.0),)),
    ("logit_bias", ((2**64, 1.0),)),
    ("logit_bias", ((3, 1.0), (4, 1.0), (3, 2.0))),
    ("logit_bias", tuple((token, 1.0) for token in range(MAX_LOGIT_BIAS + 1))),
    *[("min_tokens", value) for value in (-1, 17, 2**64)],
    *[("logprobs", value) for value in (-1, MAX_LOGPROBS + 1, 10**9)],
    *[("prompt_logprobs", value) for value in (-1, MAX_LOGPROBS + 1, 10**9)],
]
ACCEPTED: list[tuple[str, object]] = [
    *[("temperature", value) for value in (0.0, 1e-9, 1.0, 100.0)],
    *[("top_p", value) for value in (1e-9, 0.5, 1.0)],
    *[("top_k", value) for value in (-1, 0, 1, 10**9)],
    *[("max_tokens", value) for value in (1, None, 10**9)],
    *[("seed", value) for value in (None, 0, -1, 2**63 - 1, -(2**63))],
    ("stop", ("x",) * MAX_STOP_STRINGS),
    ("stop", ("x" * MAX_STOP_BYTES,)),
    ("stop", ("\ud800",)),
    ("stop_token_ids", (1,) * MAX_STOP_TOKEN_IDS),
    *[("min_p", value) for value in (0.0, 1e-9, 1.0)],
    *[("repetition_penalty", value) for value in (1e-300, 0.5, 1.0, 100.0)],
    *[("presence_penalty", value) for value in (-2.0, 0.0, 2.0)],
    *[("frequency_penalty", value) for value in (-2.0, 0.0, 2.0)],
    ("logit_bias", tuple((token, -100.0) for token in range(MAX_LOGIT_BIAS))),
    ("logit_bias", ((0, 100.0), (2**31, -100.0))),
    *[("min_tokens", value) for value in (0, 16)],
    *[("logprobs", value) for value in (None, 0, MAX_LOGPROBS)],
    *[("prompt_logprobs", value) for value in (None, 0, MAX_LOGPROBS)],
]


@pytest.mark.parametrize(("name", "value"), REFUSED)
def test_a_value_out_of_range_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        SamplingParams(**{name: value})  # type: ignore[arg-type]
    assert refused.value.param == name
    assert name in str(refused.value) or name == "stop"


@pytest.mark.parametrize(("name", "value"), ACCEPTED)
def test_values_at_the_bounds_are_accepted(name: str, value: object) -> None:
    assert getattr(SamplingParams(**{name: value}), name) == value  # type: ignore[arg-type]


def test_msgpack_keeps_the_values() -> None:
    params = SamplingParams(
        temperature=0.5,
        top_p=0.9,
        top_k=40,
        seed=-(2**63),
        max_tokens=None,
        stop=("\n", "é"),
        stop_token_ids=(1, 2),
        ignore_eos=True,
        min_p=0.1,
        repetition_penalty=1.1,
        presence_penalty=-0.5,
        frequency_penalty=0.5,
        logit_bias=((3, -1.5), (9, 2.0)),
        min_tokens=4,
        logprobs=0,
        prompt_logprobs=5,
    )
    packed = msgspec.msgpack.encode(params)
    assert msgspec.msgpack.decode(packed, type=SamplingParams) == params


@pytest.mark.parametrize(
    ("name", "value"), [("top_p", 0.0), ("top_k", -2), ("stop", [""]), ("temperature", math.nan)]
)
def test_msgpack_cannot_bring_in_what_the_constructor_refuses(name: str, value: object) -> None:
    packed = msgspec.msgpack.encode({name: value})
    with pytest.raises(InvalidRequestError) as refused:
        msgspec.msgpack.decode(packed, type=SamplingParams)
    assert refused.value.param == name


@pytest.mark.parametrize(
    ("params", "greedy"),
    [
        (SamplingParams(temperature=0.0), True),
        (SamplingParams(temperature=1e-6), True),
        (SamplingParams(temperature=1.0, top_k=1), True),
        (SamplingParams(temperature=0.01), False),
        (SamplingParams(temperature=1.0, top_k=2), False),
    ],
)
def test_no_temperature_or_one_candidate_means_greedy(params: SamplingParams, greedy: bool) -> None:
    assert params.greedy is greedy


def test_min_tokens_may_be_as_many_as_there_can_be() -> None:
    assert SamplingParams(max_tokens=None, min_tokens=10**9).min_tokens == 10**9
    assert SamplingParams(max_tokens=5, min_tokens=5).min_tokens == 5
    with pytest.raises(InvalidRequestError) as refused:
        SamplingParams(max_tokens=5, min_tokens=6)
    assert refused.value.param == "min_tokens"


def test_a_biased_token_must_be_in_the_vocabulary() -> None:
    params = SamplingParams(logit_bias=((9, 1.0),))
    params.check_vocabulary(10)
    with pytest.raises(InvalidRequestError) as refused:
        params.check_vocabulary(9)
    assert refused.value.param == "logit_bias"


@pytest.mark.parametrize(
    "setting",
    [
        {"min_p": 0.1},
        {"repetition_penalty": 1.1},
        {"presence_penalty": 0.1},
        {"frequency_penalty": -0.1},
        {"logit_bias": ((1, 0.0),)},
        {"min_tokens": 1},
        {"logprobs": 0},
        {"prompt_logprobs": 0},
    ],
    ids=str,
)
def test_whoever_asks_for_more_than_a_draw_is_not_plain(setting: dict[str, object]) -> None:
    assert SamplingParams(temperature=0.3, top_k=4, top_p=0.5, seed=3).plain
    assert not SamplingParams(**setting).plain  # type: ignore[arg-type]


def test_samples_draw_with_seeds_of_their_own_and_the_first_with_the_requests() -> None:
    assert [sample_seed(seed, 0) for seed in (0, -5, 2**63 - 1)] == [0, -5, 2**63 - 1]
    # Neighbouring seeds share no sample.
    seeds = {sample_seed(seed, index) for seed in range(-20, 20) for index in range(20)}
    assert len(seeds) == 40 * 20
    assert all(0 <= sample_seed(-7, index) < 2**64 for index in range(1, 9))
