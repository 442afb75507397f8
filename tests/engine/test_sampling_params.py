"""What a request may ask of the sampler, and what it is told when it asks for more."""

import math

import msgspec
import pytest

from netgain.engine.sampling_params import (
    MAX_STOP_BYTES,
    MAX_STOP_STRINGS,
    MAX_STOP_TOKEN_IDS,
    SamplingParams,
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
