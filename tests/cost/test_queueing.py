"""Waiting: laws that hold exactly, and their limits."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netgain.cost.queueing import (
    Service,
    erlang_c,
    utilisation,
    wait_quantile_s,
    waiting_s,
)
from netgain.errors import ConfigurationError


@given(st.floats(0.01, 0.98))
def test_a_memoryless_server_waits_as_m_m_1(load: float) -> None:
    service = Service(0.1)
    assert waiting_s(load / 0.1, service) == pytest.approx(load * 0.1 / (1 - load))


@given(st.floats(0.01, 0.98), st.floats(0, 4))
def test_one_server_waits_as_pollaczek_and_khinchine_say(load: float, variation: float) -> None:
    service = Service(0.1, variation)
    second_moment = 0.1**2 * (1 + variation)
    rate = load / 0.1
    assert waiting_s(rate, service) == pytest.approx(rate * second_moment / (2 * (1 - load)))


def test_constant_service_halves_the_wait() -> None:
    assert waiting_s(5, Service(0.1, 0.0)) == pytest.approx(waiting_s(5, Service(0.1, 1.0)) / 2)


def test_from_full_use_on_the_queue_never_ends() -> None:
    assert waiting_s(10, Service(0.1)) == math.inf
    assert wait_quantile_s(11, Service(0.1), 0.99) == math.inf
    assert waiting_s(0, Service(0.1)) == 0


@given(st.floats(0.05, 0.95), st.integers(1, 32))
def test_the_chance_to_wait_is_a_chance_and_falls_with_servers(load: float, servers: int) -> None:
    chance = erlang_c(load * servers, servers)
    assert 0 <= chance <= 1
    assert erlang_c(load * (servers + 1), servers + 1) <= chance + 1e-12


@given(st.floats(0.05, 0.999), st.integers(1, 3000))
def test_the_chance_to_wait_is_that_of_the_recursion(load: float, servers: int) -> None:
    offered, blocked = load * servers, 1.0
    for server in range(1, servers + 1):
        blocked = offered * blocked / (server + offered * blocked)
    expected = blocked / (1 - load + load * blocked)
    assert erlang_c(offered, servers) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_one_server_makes_an_arrival_wait_as_often_as_it_is_busy() -> None:
    assert erlang_c(0.7, 1) == pytest.approx(0.7)


def test_several_servers_wait_as_a_simulated_queue_does() -> None:
    draw = random.Random(7)
    free, now, waits = [0.0, 0.0, 0.0], 0.0, []
    for _ in range(60_000):
        now += draw.expovariate(24)
        server = min(range(3), key=lambda s: free[s])
        begin = max(now, free[server])
        waits.append(begin - now)
        free[server] = begin + draw.expovariate(10)
    service = Service(0.1)
    assert utilisation(24, service, 3) == pytest.approx(0.8)
    assert waiting_s(24, service, 3) == pytest.approx(sum(waits) / len(waits), rel=0.1)
    waits.sort()
    p95 = waits[int(0.95 * len(waits))]
    assert wait_quantile_s(24, service, 0.95, 3) == pytest.approx(p95, rel=0.1)


def test_observed_times_give_mean_and_variation() -> None:
    assert Service.of([1.0, 3.0]) == Service(2.0, 0.25)


def test_no_observations_and_no_tail_are_refused() -> None:
    with pytest.raises(ConfigurationError):
        Service.of([])
    with pytest.raises(ConfigurationError):
        wait_quantile_s(1.0, Service(0.5), 1.0)


def test_negative_traffic_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="rate_per_s is -1"):
        waiting_s(-1, Service(0.1))
